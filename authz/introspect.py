"""Asks introspection endpoints (RFC 7662): once per token at a time, remembered for a bounded while.

The only wait of a decision beside the limiter's, and only for a token that this process has not seen lately. Bounded by
DEADLINE, which stands well inside Envoy's time-out for a check.
"""

import asyncio
import hashlib
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote_plus

import aiohttp

from authz.download import is_safe, open_session
from authz.introspection import AnswerInvalid, read_answer
from authz.recent import Recent
from authz.token import Claims
from model.instant import Instant
from model.reason import Reason
from model.snapshot import Introspection
from model.verdict import Deny

DEADLINE = 0.15
"""Seconds for one question."""
BODY_LIMIT = 64 * 1024
REMEMBERED = 65_536
"""Answers held at one time, active and inactive together."""

Judged = Claims | Deny


@dataclass(frozen=True, slots=True)
class _Answer:
    judged: Judged
    until: Instant


class Introspector:
    """Answers for the opaque tokens of every endpoint of one snapshot.

    `secrets` maps the id of an endpoint to its client secret. Tokens are remembered by SHA-256, never in clear, and
    under the id of their endpoint, so that one tenant's answer never serves another's (pitfall 52).
    """

    def __init__(
        self,
        endpoints: Mapping[str, Introspection],
        secrets: Mapping[str, str],
        clock: Callable[[], Instant],
        observe: Callable[[str, bool], None] = lambda _id, _good: None,
    ) -> None:
        self._endpoints = endpoints
        self._secrets = secrets
        self._clock = clock
        self._observe = observe
        self._answers: Recent[tuple[str, bytes], _Answer] = Recent(REMEMBERED)
        self._asking: dict[tuple[str, bytes], asyncio.Task[Judged]] = {}
        self._session: aiohttp.ClientSession | None = None

    def recall(self, endpoint_id: str, token: str, now: Instant) -> Judged | None:
        """Recall what is known of a token, without waiting; None where the endpoint has to be asked."""
        answer = self._answers.get((endpoint_id, _digest(token)))
        return answer.judged if answer is not None and now < answer.until else None

    async def ask(self, endpoint_id: str, token: str) -> Judged:
        """Ask about a token; callers that ask about the same one meanwhile share the question.

        An endpoint that does not answer plainly and in time is IDENTITY_UNAVAILABLE, and is not remembered.
        """
        known = self.recall(endpoint_id, token, self._clock())
        if known is not None:
            return known
        key = (endpoint_id, _digest(token))
        task = self._asking.get(key)
        if task is None:
            task = asyncio.ensure_future(self._question(self._endpoints[endpoint_id], token, key))
            self._asking[key] = task
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        # A caller that goes away must not take the answer from the others.
        return await asyncio.shield(task)

    async def close(self) -> None:
        """End what is under way and let go of the connections."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def _question(self, settings: Introspection, token: str, key: tuple[str, bytes]) -> Judged:
        try:
            async with asyncio.timeout(DEADLINE):
                body = await self._post(settings, token)
            judged = read_answer(body, settings, self._clock())
        except (aiohttp.ClientError, OSError, TimeoutError, AnswerInvalid):
            self._observe(settings.id, False)
            return Deny(Reason.IDENTITY_UNAVAILABLE)
        self._observe(settings.id, True)
        now = self._clock()
        until = now + (settings.negative_cache if isinstance(judged, Deny) else settings.cache)
        if not isinstance(judged, Deny):
            until = min(until, judged.expires)
        self._answers.put(key, _Answer(judged, until))
        return judged

    async def _post(self, settings: Introspection, token: str) -> bytes:
        """Post the question (RFC 7662 section 2.1), authenticated by the client's id and secret (RFC 6749 2.3.1)."""
        if not is_safe(settings.endpoint):
            raise AnswerInvalid("the endpoint is neither https nor loopback")
        if self._session is None:
            self._session = open_session()
        pair = f"{quote_plus(settings.client_id)}:{quote_plus(self._secrets.get(settings.id, ''))}"
        headers = {
            "Authorization": "Basic " + b64encode(pair.encode()).decode(),
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        form = {"token": token, "token_type_hint": "access_token"}
        async with self._session.post(settings.endpoint, data=form, headers=headers, allow_redirects=False) as response:
            if response.status != 200:
                raise AnswerInvalid(f"status {response.status}")
            body = await response.content.read(BODY_LIMIT + 1)
            while len(body) <= BODY_LIMIT and (more := await response.content.read(BODY_LIMIT + 1)):
                body += more
            if len(body) > BODY_LIMIT:
                raise AnswerInvalid("an answer without end")
            return body


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
