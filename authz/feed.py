"""Revocations on their way: from a Redis stream or a file into the resident denylist of every sidecar.

In Redis a hash holds the whole list and a stream what was added since, both written by one script, so that a sidecar
that was away for long reads the hash and one that was not reads the stream. Each sidecar acknowledges the version that
it holds; who is alive and how far it got is the coverage. Nothing here is on the path of a request: while the feed is
away the denylist keeps refusing what it knows and only its age grows.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from authz.denylist import NEVER, Denylist, Entry, EntryInvalid, read_entry, widest
from model.instant import SECOND, Instant

STREAM = "wardgate:{revocations}:stream"
WHOLE = "wardgate:{revocations}:whole"
HOLDERS = "wardgate:{revocations}:holders"
STREAM_LENGTH = 100_000
"""Entries that the stream keeps, about; who is further behind reads the whole list."""
BLOCK_MS = 1_000
"""How long one read waits for news. Also the longest time between two acknowledgements."""
ALIVE = 10 * SECOND
"""A sidecar that has not acknowledged for this long is not counted in the coverage."""
GONE = 3_600 * SECOND
"""A sidecar that has not acknowledged for this long is struck off."""
RETRY_S = 0.5

_FIRST = "0-0"
# Adds or takes back one entry and returns the stream's id of it; list and stream change together or not at all. An
# entry is added only where the list still holds what its writer has seen there; otherwise the answer is nil.
_PUBLISH = """
if ARGV[1] == 'add' and (redis.call('HGET', KEYS[2], ARGV[2]) or '') ~= ARGV[5] then return false end
if ARGV[1] == 'add' then redis.call('HSET', KEYS[2], ARGV[2], ARGV[3]) else redis.call('HDEL', KEYS[2], ARGV[2]) end
return redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[4], '*', 'op', ARGV[1], 'entry', ARGV[3])
"""
# Strikes an expired entry off the list, unless it was written anew meanwhile.
_FORGET = """
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then return redis.call('HDEL', KEYS[1], ARGV[1]) end
return 0
"""
_ACKNOWLEDGE = """
local now = redis.call('TIME')
return redis.call('HSET', KEYS[1], ARGV[1], now[1] .. ' ' .. ARGV[2])
"""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Coverage:
    """How far a version has come. `held` and `live` count sidecars; `behind` names those that do not hold it yet."""

    version: str
    held: int
    live: int
    behind: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether every live sidecar holds the version. With none alive nothing is covered."""
        return self.live > 0 and self.held == self.live


def parse_version(version: str) -> tuple[int, int]:
    """Order stream ids: "<milliseconds>-<sequence>"; "" comes before all."""
    first, _, second = (version or _FIRST).partition("-")
    return int(first), int(second or 0)


async def publish_entry(client: Redis, entry: Entry, *, remove: bool = False) -> str:
    """Add an entry to the feed, or take it back; returns the version that holds it. Raises RedisError.

    Where the feed holds a wider entry for the same thing, that one stays, as it does in every sidecar that knows it:
    a newcomer would otherwise let in what the others refuse.
    """
    field = json.dumps([entry.subject.value, entry.scope, entry.name])
    operation = "remove" if remove else "add"
    while True:
        known = b"" if remove else await _await(client.hget(WHOLE, field)) or b""
        seconds, _ = await client.time()
        line = _widen(entry, known, int(seconds) * SECOND).line()
        version = await _eval(client, _PUBLISH, 2, STREAM, WHOLE, operation, field, line, STREAM_LENGTH, known)
        if version is not None:
            return _text(version)


def _widen(entry: Entry, known: bytes, now: Instant) -> Entry:
    """Join an entry with the one that the feed holds, unless that has expired or cannot be read."""
    with contextlib.suppress(EntryInvalid):
        held = read_entry(known)
        if held.expires >= now:
            return widest(held, entry)
    return entry


async def read_coverage(client: Redis, version: str = "") -> Coverage:
    """Tell which live sidecars hold a version (the newest one where none is named). Raises RedisError."""
    wanted = version or await newest_version(client)
    seconds, _ = await client.time()
    held, behind = 0, []
    for name, value in (await _await(client.hgetall(HOLDERS))).items():
        seen, _, holds = _text(value).partition(" ")
        if (int(seconds) - int(seen)) * SECOND > ALIVE:
            continue
        if parse_version(holds) >= parse_version(wanted):
            held += 1
        else:
            behind.append(_text(name))
    return Coverage(wanted, held, held + len(behind), tuple(sorted(behind)))


async def newest_version(client: Redis) -> str:
    """Tell the newest version of the feed, "0-0" where nothing was ever revoked. Raises RedisError."""
    newest = await client.xrevrange(STREAM, count=1)
    return _text(newest[0][0]) if newest else _FIRST


class RevocationFeed:
    """Keeps one denylist in step with the feed, in the background.

    `instance` names this sidecar in the coverage. `changed` is called after each change with the denylist (to drop
    cached verdicts and to write it to disk). `observe` is told True after each successful exchange and False when the
    feed goes away, once per change of state is up to the observer.
    """

    def __init__(
        self,
        client: Redis,
        denylist: Denylist,
        instance: str,
        clock: Callable[[], Instant],
        changed: Callable[[Denylist], None],
        observe: Callable[[bool], None],
    ) -> None:
        self._client = client
        self._denylist = denylist
        self._instance = instance
        self._clock = clock
        self._changed = changed
        self._observe = observe
        self._task: asyncio.Task[None] | None = None
        self._current = False
        self._closing = False

    async def start(self) -> None:
        """Catch up once, as far as the feed answers, and go on in the background."""
        self._current = await self._guard(self._catch_up)
        self._task = asyncio.create_task(self._run(), name="revocation feed")

    async def close(self) -> None:
        """End the background task and take this sidecar out of the coverage."""
        # A cancellation can come out as the time-out of the client that it met: then the flag ends the loop.
        self._closing = True
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        with contextlib.suppress(RedisError, OSError, TimeoutError):
            await _await(self._client.hdel(HOLDERS, self._instance))
        await self._client.aclose()

    async def _run(self) -> None:
        # Whoever follows before it has caught up never reads what the stream no longer holds, and would seem covered.
        while not self._closing:
            if self._current:
                self._current = await self._guard(self._follow)
            else:
                await asyncio.sleep(RETRY_S)
                self._current = await self._guard(self._catch_up)

    async def _guard(self, work: Callable[[], Awaitable[None]]) -> bool:
        try:
            await work()
        except (RedisError, OSError, TimeoutError):
            self._observe(False)
            return False
        except Exception:  # noqa: BLE001 - a task that dies would hear of no revocation any more, and say nothing
            _log.exception("the revocation feed cannot be followed")
            self._observe(False)
            return False
        self._observe(True)
        return True

    async def _catch_up(self) -> None:
        """Read the whole list where the stream no longer reaches back to what is held."""
        oldest = await self._client.xrange(STREAM, count=1)
        newest = await newest_version(self._client)
        held = self._denylist.version
        reaches = held and (not oldest or parse_version(_text(oldest[0][0])) <= parse_version(held))
        if not reaches:
            async for name, line in self._client.hscan_iter(WHOLE, count=1000):
                if not self._add(_text(line)):
                    await _eval(self._client, _FORGET, 1, WHOLE, _text(name), _text(line))
            self._denylist.version = newest
            self._changed(self._denylist)
            await self._strike_off()
        await self._acknowledge()

    async def _follow(self) -> None:
        """Wait for news, take it in, say how far this sidecar has come."""
        held = self._denylist.version or _FIRST
        news: Any = await self._client.xread({STREAM: held}, count=1000, block=BLOCK_MS)
        for _, messages in news or ():
            for version, fields in messages:
                self._apply({_text(name): _text(value) for name, value in fields.items()})
                self._denylist.version = _text(version)
            self._changed(self._denylist)
        await self._acknowledge()

    def _apply(self, fields: dict[str, str]) -> None:
        if fields.get("op") == "remove":
            with contextlib.suppress(EntryInvalid):
                self._denylist.remove(read_entry(fields.get("entry", "")))
        else:
            self._add(fields.get("entry", ""))

    def _add(self, line: str) -> bool:
        """Take a line in; False for one that has expired.

        A line that cannot be read is passed over: one bad entry must not keep the others from being enforced.
        """
        with contextlib.suppress(EntryInvalid):
            entry = read_entry(line)
            if entry.expires != NEVER and entry.expires < self._clock():
                return False
            self._denylist.add(entry)
        return True

    async def _strike_off(self) -> None:
        """Forget the sidecars that ended without a word long ago: each restart has a name of its own."""
        seconds, _ = await self._client.time()
        for name, value in (await _await(self._client.hgetall(HOLDERS))).items():
            seen, _, _ = _text(value).partition(" ")
            if (int(seconds) - int(seen)) * SECOND > GONE:
                await _await(self._client.hdel(HOLDERS, _text(name)))

    async def _acknowledge(self) -> None:
        version = self._denylist.version or _FIRST
        await _eval(self._client, _ACKNOWLEDGE, 1, HOLDERS, self._instance, version)


async def _eval(client: Redis, script: str, keys: int, *values: str | int | bytes) -> Any:
    return await _await(client.eval(script, keys, *(v if isinstance(v, bytes) else str(v) for v in values)))


async def _await(value: Any) -> Any:
    # redis-py types one method for both of its clients: "an answer or an awaitable of it".
    return await value


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
