"""What the revocation feed told: kept in step with Redis, on disk over a restart, its age and coverage shown."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from redis.asyncio import Redis

from authz.denylist import Denylist, EntryInvalid, read_list
from authz.feed import Coverage, RevocationFeed, read_coverage
from model.instant import SECOND, Instant
from model.snapshot import Store
from sidecar.keys import replace_file
from sidecar.listing import PIECE
from sidecar.metrics import Gauge
from sidecar.redis import open_client

FILE = "revocations.jsonl"
PATIENCE = 1.0
"""Seconds for which a policy waits for the feed to be read the first time."""
PAUSE = 1.0
"""Seconds between two writes to disk, so that a burst of revocations is one write."""
AGAIN = 5.0
"""Seconds until a list that could not be saved is tried again."""
TIDY = 60.0
"""Seconds between two looks for entries that have expired."""
COVERAGE = 2.0
"""Seconds between two looks at how far the other sidecars are."""

_HEAD = "# version "

_log = logging.getLogger(__name__)


class Revoked:
    """The denylist of the feed, for one worker. `primary` is the one of its sidecar that writes and counts.

    `denylist` is one and the same object for good, so that a decision can hold it. `observe` is told of each exchange
    with the feed, True where it answered, as `authz.feed.RevocationFeed` says.
    """

    def __init__(
        self,
        state: Path | None,
        instance: str,
        clock: Callable[[], Instant],
        observe: Callable[[bool], None],
        *,
        primary: bool = True,
    ) -> None:
        self.denylist = Denylist()
        self._state = state
        self._instance = instance
        self._clock = clock
        self._observe = observe
        self._primary = primary
        self._store: Store | None = None
        self._feed: RevocationFeed | None = None
        self._following: list[asyncio.Task[None]] = []
        self._coverage: Coverage | None = None
        self._heard: Instant = 0
        self._changed = asyncio.Event()
        self._keeping: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Recall what was told before, and keep it on disk from then on. Raises ValueError for a broken file."""
        if self._state is not None:
            known = await asyncio.to_thread(load_denylist, self._state)
            self.denylist.version, self.denylist.marks = known.version, known.marks
        self._keeping = [
            asyncio.create_task(self._save(), name="revocations on disk"),
            asyncio.create_task(self._tidy(), name="expired revocations"),
        ]

    async def follow(self, store: Store | None) -> None:
        """Follow the feed in a store, None for none; what was told stays. Raises ValueError for a secret that is not.

        A feed that does not answer keeps nobody waiting for longer than PATIENCE.
        """
        if store == self._store:
            return
        client = open_client(store) if store is not None else None
        await self._leave()
        self._store = store
        if client is None:
            return
        self._feed = RevocationFeed(client, self.denylist, self._instance, self._clock, self._note, self._hear)
        starting = asyncio.create_task(self._feed.start(), name="revocation feed starts")
        self._following = [starting]
        if self._primary:
            self._following.append(asyncio.create_task(self._count(client), name="revocation coverage"))
        await asyncio.wait({starting}, timeout=PATIENCE)

    async def close(self) -> None:
        """Stop; what was told last is on disk then."""
        await self._leave()
        await _cancel(self._keeping)
        if self._changed.is_set():
            await self._write()

    def gauges(self) -> Iterator[Gauge]:
        """Give what a scrape asks for."""
        yield "revocation_entries", "Revocations held, of the feed.", {}, float(len(self.denylist))
        if self._store is not None:
            age = (self._clock() - self._heard) / SECOND if self._heard else -1.0
            yield "revocation_age_seconds", "Time since the feed last spoke; -1 before the first.", {}, age
        if self._coverage is not None:
            text = "Workers that are alive, and those of them that hold the newest revocation."
            yield "revocation_coverage", text, {"state": "live"}, float(self._coverage.live)
            yield "revocation_coverage", text, {"state": "covered"}, float(self._coverage.held)

    async def _leave(self) -> None:
        await _cancel(self._following)
        self._following = []
        if self._feed is not None:
            await self._feed.close()
        self._feed = self._coverage = None

    def _note(self, _denylist: Denylist) -> None:
        self._changed.set()

    def _hear(self, good: bool) -> None:
        if good:
            self._heard = self._clock()
        self._observe(good)

    async def _save(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(PAUSE)
            if not await self._write():
                self._changed.set()
                await asyncio.sleep(AGAIN)

    async def _write(self) -> bool:
        """Save the list; False where that failed: what is held is enforced, but a restart has to hear it anew."""
        self._changed.clear()
        if self._state is None or not self._primary:
            return True
        try:
            await asyncio.to_thread(save_denylist, self._state, self.denylist.copy())
        except Exception as error:  # noqa: BLE001 - a full disk today must not keep tomorrow's list from being saved
            _log.error("revocations not saved: %s", getattr(error, "strerror", None) or type(error).__name__)
            return False
        return True

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(TIDY)
            if self.denylist.forget(self._clock()):
                self._changed.set()

    async def _count(self, client: Redis) -> None:
        while True:
            try:
                self._coverage = await read_coverage(client)
            except Exception:  # noqa: BLE001 - whatever it is, it is looked at again
                self._coverage = None
            await asyncio.sleep(COVERAGE)


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def load_denylist(state: Path) -> Denylist:
    """Recall what was saved; an empty list where nothing was. Raises ValueError for a file that is no list."""
    path = state / FILE
    try:
        with path.open(buffering=PIECE, encoding="utf-8") as file:
            head = file.readline()
            file.seek(0)
            return read_list(file, head.removeprefix(_HEAD).strip() if head.startswith(_HEAD) else "")
    except FileNotFoundError:
        return Denylist()
    except (OSError, UnicodeDecodeError, EntryInvalid) as error:
        raise ValueError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def save_denylist(state: Path, denylist: Denylist) -> None:
    """Write a list in the place of the one that is there, whole or not at all. Raises OSError."""
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    lines = "".join(f"{line}\n" for line in denylist.lines())
    replace_file(state / FILE, f"{_HEAD}{denylist.version}\n{lines}")
