"""Asks introspection endpoints (RFC 7662): once per token at a time, remembered for a bounded while.

The only wait of a decision beside the limiter's, and only for a token that this process has not seen lately. Bounded by
DEADLINE, which stands well inside Envoy's time-out for a check; and while an endpoint is away, not even that.
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
from model.instant import SECOND, Instant
from model.reason import Reason
from model.snapshot import Introspection
from model.verdict import Deny

DEADLINE = 0.15
"""Seconds for one question."""
PAUSE = SECOND
"""After an endpoint was silent it is left alone for this long: no decision waits for what just did not answer."""
QUESTIONS = 256
"""Questions that are under way at one time; a token beyond them counts as one that nobody could be asked about."""
CONNECTIONS = 32
"""Connections to one endpoint; a burst of new tokens must not stand in one line within DEADLINE."""
BODY_LIMIT = 64 * 1024
REMEMBERED = 65_536
"""Answers held at one time, active and inactive together."""

Judged = Claims | Deny


@dataclass(frozen=True, slots=True)
class _Answer:
    """What was said, until when it serves by itself, and until when while the endpoint is away."""

    judged: Judged
    until: Instant
    spare: Instant


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
        self._resting: dict[str, Instant] = {}
        self._asking: dict[tuple[str, bytes], asyncio.Task[Judged]] = {}
        self._session: aiohttp.ClientSession | None = None

    def recall(self, endpoint_id: str, token: str, now: Instant) -> Judged | None:
        """Recall what is known of a token, without waiting; None where the endpoint has to be asked."""
        answer = self._answers.get((endpoint_id, _digest(token)))
        return answer.judged if answer is not None and now < answer.until else None

    async def ask(self, endpoint_id: str, token: str, *, lenient: bool = False) -> Judged:
        """Ask about a token; callers that ask about the same one meanwhile share the question.

        An endpoint that does not answer plainly and in time is IDENTITY_UNAVAILABLE, and is not remembered. A
        `lenient` caller then gets what was said before, within `max_stale`; never a token that was not active.
        """
        judged = await self._ask(endpoint_id, token)
        if lenient and isinstance(judged, Deny) and judged.reason is Reason.IDENTITY_UNAVAILABLE:
            answer = self._answers.get((endpoint_id, _digest(token)))
            if answer is not None and self._clock() < answer.spare:
                return answer.judged
        return judged

    async def _ask(self, endpoint_id: str, token: str) -> Judged:
        now = self._clock()
        known = self.recall(endpoint_id, token, now)
        if known is not None:
            return known
        key = (endpoint_id, _digest(token))
        task = self._asking.get(key)
        if task is None:
            # A beginning as well as an end: a clock that is set back must not make the pause long.
            resting = 0 <= now - self._resting.get(endpoint_id, -PAUSE) < PAUSE
            if resting or len(self._asking) >= QUESTIONS or endpoint_id not in self._endpoints:
                return Deny(Reason.IDENTITY_UNAVAILABLE)
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
        except (aiohttp.ClientError, OSError, TimeoutError, AnswerInvalid) as error:
            self._observe(settings.id, False)
            if not isinstance(error, AnswerInvalid):
                # Only silence rests an endpoint: an odd answer may be to one odd token, which anybody can send.
                self._resting[settings.id] = self._clock()
            return Deny(Reason.IDENTITY_UNAVAILABLE)
        self._observe(settings.id, True)
        now = self._clock()
        if isinstance(judged, Deny):
            answer = _Answer(judged, now + settings.negative_cache, spare=0)
        else:
            until = min(now + settings.cache, judged.expires)
            answer = _Answer(judged, until, min(until + settings.max_stale, judged.expires))
        self._answers.put(key, answer)
        return judged

    async def _post(self, settings: Introspection, token: str) -> bytes:
        """Post the question (RFC 7662 section 2.1), authenticated by the client's id and secret (RFC 6749 2.3.1)."""
        if not is_safe(settings.endpoint):
            raise AnswerInvalid("the endpoint is neither https nor loopback")
        if self._session is None:
            self._session = open_session(CONNECTIONS)
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
