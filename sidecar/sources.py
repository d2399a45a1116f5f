"""Everything that a decision believes beside the policy, kept fresh in the background of one worker.

Key sets of issuers and of partners, introspection, revocation status of certificates, API keys, revocations. A policy
is taken up in steps: `prepare` may fail and changes nothing that is in force, `commit` cannot fail and does not wait.
"""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from authz.assertion import partner_issuers
from authz.denylist import Denylist, read_list
from authz.fetch import StatusFetcher
from authz.introspect import Introspector
from authz.keytable import KeyTable, index_keys
from authz.refresh import KeyRefresher
from authz.resident import Live, Resident
from authz.status import Revocations
from model.instant import SECOND, Duration, Instant
from model.snapshot import Introspection, Snapshot
from sidecar.listing import Listing, Mark
from sidecar.metrics import Gauge
from sidecar.record import Recorder
from sidecar.revoked import Revoked
from sidecar.secret import read_secret
from sidecar.shelf import Shelf

PATIENCE = 2.0
"""Seconds for which a new policy waits for the first fetches of what it newly names."""
PARTING = 10.0
"""Seconds for which what was replaced still answers the calls that began with it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker lives: its state on disk, its name among all that follow the feed, whether it is the first.

    `poll` is how often files are looked at.
    """

    state: Path | None
    instance: str
    primary: bool
    poll: Duration


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a policy names and what could be read of it; None for files that are followed already."""

    snapshot: Snapshot
    secrets: Mapping[str, str]
    keys: tuple[KeyTable, Mark] | None
    filed: tuple[Denylist, Mark] | None


class Sources:
    """The background of one worker. `start`, then for each policy `prepare`, `fetch` and `commit`, then `close`."""

    def __init__(self, place: Place, recorder: Recorder, clock: Callable[[], Instant]) -> None:
        self._recorder = recorder
        self._clock = clock
        self._poll = place.poll
        self._issuers = KeyRefresher(clock=clock, random=random.random, observer=recorder)
        self._partners = KeyRefresher(clock=clock, random=random.random, observer=recorder)
        self._status = StatusFetcher(Revocations(), clock=clock, random=random.random, observer=recorder)
        self._revoked = Revoked(place.state, place.instance, clock, self._hear, primary=place.primary)
        self._keys: Listing[KeyTable] = Listing(index_keys, Shelf(place.state).take)
        self._filed: Listing[Denylist] = Listing(read_list)
        self._asked: tuple[Mapping[str, Introspection], Mapping[str, str]] = ({}, {})
        self._introspector: Introspector | None = None
        self._live: Live | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._parting: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Recall what is on disk and begin to follow files. Raises ValueError for what is there and broken."""
        await self._revoked.start()
        self._tasks = [
            asyncio.create_task(self._keys.follow(self._poll, self._take_keys, self._refuse), name="API keys"),
            asyncio.create_task(self._filed.follow(self._poll, self._take_filed, self._refuse), name="denylist"),
        ]

    def furnish(self, live: Live) -> None:
        """Give a Live its views on what is kept here."""
        live.keys, live.partners = self._issuers, self._partners
        live.status, live.denylist = self._status.book, self._revoked.denylist
        self._live = live

    async def prepare(self, snapshot: Snapshot) -> Prepared:
        """Read what a policy names and is not at hand. Raises ValueError; nothing in force has changed then."""
        points = snapshot.introspections.items()
        keys, filed = _paths(snapshot.api_keys), _paths(snapshot.revocation.files)
        return Prepared(
            snapshot,
            {name: read_secret(point.secret, os.environ) for name, point in points},
            await self._keys.load(keys) if keys != self._keys.paths else None,
            await self._filed.load(filed) if filed != self._filed.paths else None,
        )

    async def fetch(self, prepared: Prepared, resident: Resident) -> None:
        """Begin to follow what is elsewhere, and wait a little for what was never fetched. Raises ValueError."""
        snapshot = prepared.snapshot
        self._status.follow(resident.trusts.values())
        await asyncio.gather(
            self._revoked.follow(snapshot.revocation.feed),
            self._issuers.apply(snapshot.issuers.values(), PATIENCE),
            self._partners.apply(partner_issuers(snapshot), PATIENCE),
            self._status.start(PATIENCE),
        )

    def commit(self, prepared: Prepared, live: Live) -> None:
        """Put what was prepared into force, together with the policy that names it."""
        snapshot = prepared.snapshot
        if prepared.keys is not None:
            live.api_keys = prepared.keys[0]
            self._keys.adopt(_paths(snapshot.api_keys), prepared.keys[1])
        if prepared.filed is not None:
            live.filed = prepared.filed[0]
            self._filed.adopt(_paths(snapshot.revocation.files), prepared.filed[1])
        asked = (snapshot.introspections, prepared.secrets)
        if asked == self._asked:
            return
        if self._introspector is not None:
            self.part(self._introspector.close)
        self._asked = asked
        self._introspector = live.endpoints = Introspector(*asked, self._clock, self._recorder.introspected)

    def part(self, close: Callable[[], Awaitable[None]]) -> None:
        """Close something that was replaced, once the calls that began with it are over."""
        task = asyncio.create_task(_close_later(close), name="parting")
        self._parting.add(task)
        task.add_done_callback(self._parting.discard)

    def gauges(self) -> Iterator[Gauge]:
        """Give what a scrape asks for."""
        for issuer, age in {**self._partners.ages(), **self._issuers.ages()}.items():
            value = -1.0 if age is None else age / SECOND
            yield "jwks_age_seconds", "Age of an issuer's key set; -1 before the first.", {"issuer": issuer}, value
        for source, left in self._status.book.seconds_left(self._clock()).items():
            text = "Time for which a list of revoked certificates holds."
            yield "crl_seconds_left", text, {"source": source}, float(left)
        unchecked = float(self._status.book.unchecked)
        yield "certificates_unchecked", "Requests that passed with a certificate of unknown status.", {}, unchecked
        if self._live is not None:
            yield "api_keys", "API keys held.", {}, float(len(self._live.api_keys))
            yield "denylist_entries", "Revocations held, of files.", {}, float(len(self._live.filed))
        yield from self._revoked.gauges()

    async def close(self) -> None:
        """Stop everything."""
        tasks = [*self._tasks, *self._parting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(self._issuers.close(), self._partners.close(), self._status.close(), self._revoked.close())
        if self._introspector is not None:
            await self._introspector.close()

    def _hear(self, good: bool) -> None:
        self._recorder.feed_heard(good=good)
        if good and self._live is not None:
            self._live.heard = self._clock()

    def _take_keys(self, table: KeyTable) -> None:
        if self._live is not None:
            self._live.api_keys = table
        self._recorder.list_taken("api keys", len(table))

    def _take_filed(self, denylist: Denylist) -> None:
        if self._live is not None:
            self._live.filed = denylist
        self._recorder.list_taken("denylist", len(denylist))

    def _refuse(self, why: str) -> None:
        self._recorder.list_refused(why)


def _paths(names: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(map(Path, names))


async def _close_later(close: Callable[[], Awaitable[None]]) -> None:
    try:
        await asyncio.sleep(PARTING)
    finally:
        await close()
