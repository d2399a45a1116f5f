"""The key sets of all issuers, kept fresh in the background, so that a request reads resident keys.

Each issuer has its own task: one that is dead delays no other. A fetch that fails, in whatever way, leaves the last
good set in place; a set may be used until `max_stale` after it was fetched. The only wait that a request can meet is
`want`, once per cool-down, for a kid that no set holds yet.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp

from authz.download import Download, DownloadFailed, download_keys, open_session
from authz.keyset import KeySet, KeySetInvalid, read_keys
from authz.token import Trusted
from model.instant import SECOND, Duration, Instant
from model.snapshot import Issuer

ABSENT_LIMIT = 1024
"""Kids of one issuer remembered as absent."""
FIRST_RETRY = SECOND
LAST_RETRY = 30 * SECOND
"""Bounds of the pause after a failed fetch; it doubles from one failure to the next."""

Fetch = Callable[[str], Awaitable[Download]]


class Observer(Protocol):
    """Hears what happens to each issuer's keys, for metrics and logs."""

    def keys_loaded(self, issuer_id: str, keys: KeySet) -> None:
        """Note a set that was fetched and read; `keys.ignored` says which of its keys were left out."""

    def keys_failed(self, issuer_id: str, why: str) -> None:
        """Note a fetch that failed or brought nothing usable; the last good set stays."""


@dataclass(slots=True)
class _Absence:
    """A kid that the last fetch for it did not bring: not asked for again before `until`."""

    until: Instant
    span: Duration


@dataclass(slots=True)
class _Source:
    """What is known of one issuer's keys. `loaded` counts only where there are keys."""

    issuer: Issuer
    keys: KeySet | None = None
    loaded: Instant = 0
    due: Instant = 0
    wanted: Instant | None = None
    failures: int = 0
    absent: dict[str, _Absence] = field(default_factory=dict)
    fetching: asyncio.Task[None] | None = None
    keeper: asyncio.Task[None] | None = None
    tried: asyncio.Event = field(default_factory=asyncio.Event)


class KeyRefresher:
    """Keeps one key set per issuer. Runs in one event loop; every method but `apply`, `want` and `close` is instant.

    `clock` gives nanoseconds since the epoch; `sleep` takes seconds; `random` gives a float from 0 to 1 and spreads
    the fetches of many sidecars; `fetch` replaces the network in tests. `trust` is what verify_token reads: a new
    mapping after every change, so that its identity can key a cache.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], Instant],
        random: Callable[[], float],
        observer: Observer | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        fetch: Fetch | None = None,
    ) -> None:
        self._clock = clock
        self._random = random
        self._observer = observer
        self._sleep = sleep
        self._fetch = fetch or self._download
        self._session: aiohttp.ClientSession | None = None
        self._sources: dict[str, _Source] = {}
        self.trust: Mapping[str, Trusted] = {}

    @property
    def keys(self) -> Mapping[str, KeySet]:
        """The loaded key sets by issuer id."""
        return {name: source.keys for name, source in self._sources.items() if source.keys is not None}

    def ages(self) -> Mapping[str, Duration | None]:
        """Measure the age of each issuer's key set; None where none was ever loaded."""
        now = self._clock()
        return {name: now - source.loaded if source.keys else None for name, source in self._sources.items()}

    async def apply(self, issuers: Iterable[Issuer], patience: float = 1.0) -> None:
        """Take up the issuers of a new snapshot and drop the others with their tasks and keys.

        An issuer keeps its keys only while both its name and the place of its keys stay. Waits at most `patience`
        seconds for the first fetches of new issuers; one that is down is tried again in the background.
        """
        wanted = {issuer.id: issuer for issuer in issuers}
        for name, source in list(self._sources.items()):
            issuer = wanted.get(name)
            if issuer is None or (issuer.issuer, issuer.jwks) != (source.issuer.issuer, source.issuer.jwks):
                await _stop(self._sources.pop(name))
        for issuer in wanted.values():
            self._take_up(issuer)
        self._publish()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                for source in list(self._sources.values()):
                    await source.tried.wait()

    async def want(self, issuer_id: str, kid: str, patience: float = 0.15) -> bool:
        """Fetch an issuer's keys because a token names one that is not there; True where the set has changed.

        At most one fetch an issuer and cool-down, whatever tokens ask for: the cool-down runs from the last fetch
        that was wanted, by time only, so it holds for an empty or unreachable set too. Callers that come together
        share one fetch and wait for it at most `patience` seconds; it goes on when they stop waiting.
        """
        source = self._sources.get(issuer_id)
        if source is None:
            return False
        before = source.keys
        if source.fetching is None and not self._may_want(source, kid):
            return False
        await asyncio.wait({self._fetch_once(source)}, timeout=patience)
        return source.keys is not before

    async def close(self) -> None:
        """Stop all tasks and close the connections."""
        sources = list(self._sources.values())
        self._sources.clear()
        self._publish()
        for source in sources:
            await _stop(source)
        if self._session is not None:
            await self._session.close()

    def _take_up(self, issuer: Issuer) -> None:
        source = self._sources.get(issuer.id)
        if source is None:
            source = self._sources[issuer.id] = _Source(issuer)
        elif source.issuer == issuer:
            return
        elif source.keeper is not None:
            source.keeper.cancel()
        source.issuer = issuer
        source.due = min(source.due, self._clock() + issuer.refresh)
        source.keeper = asyncio.create_task(self._keep(source), name=f"keys of {issuer.id}")

    async def _keep(self, source: _Source) -> None:
        while True:
            # A wanted fetch moves the due time on meanwhile. A pause beyond the interval means that the clock was set
            # back: then the fetch is due now, and not when the clock has caught up.
            while 0 < (pause := source.due - self._clock()) <= source.issuer.refresh:
                await self._sleep(pause / SECOND)
            await asyncio.wait({self._fetch_once(source)})

    def _may_want(self, source: _Source, kid: str) -> bool:
        """Tell whether a fetch for this kid is allowed now, and count it as begun if so.

        A kid that stays absent may be asked for after one cool-down, then two, four and so on up to the refresh
        interval: a client that keeps sending tokens of a retired key must not use up the fetch that a new key needs.
        """
        now = self._clock()
        cooldown = source.issuer.cooldown
        absence = source.absent.get(kid)
        # Both spans have a beginning as well: a clock that is set back must not make them long.
        if absence is not None and 0 < absence.until - now <= absence.span:
            return False
        if source.wanted is not None and 0 <= now - source.wanted < cooldown:
            return False
        source.wanted = now
        source.absent.pop(kid, None)
        span = cooldown if absence is None else min(2 * absence.span, max(cooldown, source.issuer.refresh))
        source.absent[kid] = _Absence(now + span, span)
        if len(source.absent) > ABSENT_LIMIT:
            del source.absent[next(iter(source.absent))]
        return True

    def _fetch_once(self, source: _Source) -> asyncio.Task[None]:
        """Begin a fetch, or join the one in flight."""
        if source.fetching is None:
            source.fetching = asyncio.create_task(self._load(source), name=f"fetch for {source.issuer.id}")
        return source.fetching

    async def _load(self, source: _Source) -> None:
        """Fetch and read one set; whatever fails leaves the last good one in place."""
        try:
            download = await self._fetch(source.issuer.jwks)
            keys = read_keys(download.body)
        except (DownloadFailed, KeySetInvalid) as error:
            self._note_failure(source, str(error))
        except Exception as error:  # noqa: BLE001 - an issuer whose task dies would let its keys go stale in silence
            self._note_failure(source, f"unexpected {type(error).__name__}")
        else:
            self._note_success(source, keys, download.fresh_for)
        finally:
            source.fetching = None
            source.tried.set()

    def _note_success(self, source: _Source, keys: KeySet, fresh_for: int | None) -> None:
        if source.keys is None or source.keys.digest != keys.digest:
            source.keys = keys
            source.absent.clear()
        source.failures = 0
        source.loaded = self._clock()
        source.due = source.loaded + self._interval(source.issuer, fresh_for)
        self._publish()
        if self._observer is not None:
            self._observer.keys_loaded(source.issuer.id, keys)

    def _note_failure(self, source: _Source, why: str) -> None:
        """Try again soon: after a pause that doubles up to LAST_RETRY, half of it left to chance."""
        pause = min(FIRST_RETRY << min(source.failures, 10), LAST_RETRY, source.issuer.refresh)
        source.failures += 1
        source.due = self._clock() + int(pause * (1 + self._random()) / 2)
        if self._observer is not None:
            self._observer.keys_failed(source.issuer.id, why)

    def _interval(self, issuer: Issuer, fresh_for: int | None) -> Duration:
        """Time until the next fetch: what the server says, within cool-down and refresh, up to a tenth earlier.

        The refresh interval is the upper bound, so that a key which its issuer withdrew is gone after that time
        whatever a header claims.
        """
        stated = issuer.refresh if fresh_for is None else fresh_for * SECOND
        interval = max(min(stated, issuer.refresh), min(issuer.cooldown, issuer.refresh))
        return int(interval * (1 - self._random() / 10))

    def _publish(self) -> None:
        self.trust = {
            source.issuer.issuer: Trusted(source.issuer, source.keys, source.loaded + source.issuer.max_stale)
            for source in self._sources.values()
        }

    async def _download(self, url: str) -> Download:
        if self._session is None:
            self._session = open_session()
        return await download_keys(self._session, url)


async def _stop(source: _Source) -> None:
    tasks = [task for task in (source.keeper, source.fetching) if task is not None]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
