"""What a worker holds beside the policy and keeps fresh in the background: keys, answers, lists of what is revoked.

All of it is refreshed away from the path of a request, and what fails leaves the last good state in place.
"""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from authz.assertion import partner_issuers
from authz.denylist import Denylist
from authz.feed import RevocationFeed
from authz.fetch import StatusFetcher
from authz.introspect import Introspector
from authz.refresh import KeyRefresher
from authz.resident import Live, Resident
from authz.ring import ContextRing
from authz.status import Revocations
from model.instant import SECOND, Instant
from model.snapshot import Introspection, Snapshot, Store
from sidecar.filed import Filed, FiledReader
from sidecar.metrics import Gauge
from sidecar.record import Recorder
from sidecar.revoked import load_denylist, open_client, save_denylist
from sidecar.secret import read_secret, unlock_store

PATIENCE = 2.0
"""Seconds for which a new policy waits for the first fetches of what it newly names."""
FILE_INTERVAL = 0.5
SAVE_INTERVAL = 2.0
PARTING = 10.0
"""Seconds for which something that was replaced still answers the calls that began with it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """All that a policy names and that could be read at once: nothing of it is in use yet."""

    reader: FiledReader
    filed: Filed
    secrets: Mapping[str, str]
    feed: Store | None


class Holding:
    """The background of one worker. `want` reads what a policy names, `prepare` fetches, `install` puts it in force.

    `instance` names this worker among all that follow the feed of revocations.
    """

    def __init__(self, clock: Callable[[], Instant], recorder: Recorder, state: Path | None, instance: str) -> None:
        self.live: Live | None = None
        self._clock = clock
        self._recorder = recorder
        self._state = state
        self._instance = instance
        self._keys = KeyRefresher(clock=clock, random=random.random, observer=recorder)
        self._partners = KeyRefresher(clock=clock, random=random.random, observer=recorder)
        self._status = StatusFetcher(Revocations(), clock=clock, random=random.random, observer=recorder)
        self._denylist = Denylist()
        self._reader: FiledReader | None = None
        self._asked: tuple[Mapping[str, Introspection], Mapping[str, str]] = ({}, {})
        self._endpoints: Introspector | None = None
        self._feed_store: Store | None = None
        self._feed: RevocationFeed | None = None
        self._unsaved = False
        self._tasks: list[asyncio.Task[None]] = []
        self._parting: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Recall what the feed had told before a restart, and begin. Raises ValueError for a saved list that is bad."""
        self._denylist = await asyncio.to_thread(load_denylist, self._state)
        self._tasks = [
            asyncio.create_task(self._follow_files(), name="files"),
            asyncio.create_task(self._save(), name="denylist"),
        ]

    async def want(self, snapshot: Snapshot) -> Wanted:
        """Read the files and secrets that a policy names. Raises ValueError for what cannot be used."""
        reader = FiledReader(snapshot)
        feed = snapshot.revocation.feed
        return Wanted(
            reader=reader,
            filed=await asyncio.to_thread(reader.read),
            secrets={name: read_secret(point.secret, os.environ) for name, point in snapshot.introspections.items()},
            feed=unlock_store(feed, os.environ) if feed is not None else None,
        )

    def enliven(self, ring: ContextRing) -> Live:
        """Give what all residents share, begun with the first one."""
        if self.live is None:
            self.live = Live(
                ring=ring, keys=self._keys, partners=self._partners, denylist=self._denylist, status=self._status.book
            )
        return self.live

    async def prepare(self, snapshot: Snapshot, wanted: Wanted, resident: Resident) -> None:
        """Fetch for the first time what a policy newly names, for as long as PATIENCE; drop what it names no more.

        Raises ValueError for a feed that no client can be made for.
        """
        self._status.follow(resident.trusts.values())
        await asyncio.gather(
            self._keys.apply(snapshot.issuers.values(), PATIENCE),
            self._partners.apply(partner_issuers(snapshot), PATIENCE),
            self._status.start(PATIENCE),
            self._follow_feed(wanted.feed),
        )

    def install(self, snapshot: Snapshot, wanted: Wanted, live: Live, ring: ContextRing) -> None:
        """Put in force what was wanted; without waiting, so that it goes with the policy that wanted it."""
        live.ring = ring
        live.api_keys, live.filed = wanted.filed.keys, wanted.filed.denylist
        self._reader = wanted.reader
        if (snapshot.introspections, wanted.secrets) != self._asked:
            if self._endpoints is not None:
                self.part(self._endpoints.close)
            self._asked = (snapshot.introspections, wanted.secrets)
            self._endpoints = live.endpoints = Introspector(*self._asked, self._clock, self._recorder.introspected)

    def part(self, close: Callable[[], Awaitable[None]]) -> None:
        """Close something that was replaced, once the calls that began with it are over."""
        task = asyncio.create_task(_close_later(close), name="parting")
        self._parting.add(task)
        task.add_done_callback(self._parting.discard)

    def gauges(self) -> Iterator[Gauge]:
        """Give what a scrape asks for."""
        for issuer, age in {**self._keys.ages(), **self._partners.ages()}.items():
            value = -1.0 if age is None else age / SECOND
            yield "jwks_age_seconds", "Age of an issuer's key set; -1 before the first.", {"issuer": issuer}, value
        now, book = self._clock(), self._status.book
        for source, left in book.seconds_left(now).items():
            yield "crl_seconds_left", "Time for which a list of revoked certificates holds.", {"source": source}, left
        yield "certificates_unchecked", "Requests that passed by a soft policy, unchecked.", {}, float(book.unchecked)
        yield "denylist_entries", "Entries told by the feed of revocations.", {}, float(len(self._denylist))
        if self.live is not None:
            yield "api_keys", "API keys held.", {}, float(len(self.live.api_keys))
            yield "filed_denylist_entries", "Revocations held of files.", {}, float(len(self.live.filed))
            if self._feed is not None:
                heard = (now - self.live.heard) / SECOND if self.live.heard else -1.0
                yield "denylist_age_seconds", "Time since the feed of revocations spoke; -1 before.", {}, heard

    async def close(self) -> None:
        """Stop everything."""
        for task in (*self._tasks, *self._parting):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._parting, return_exceptions=True)
        if self._feed is not None:
            await self._feed.close()
        if self._endpoints is not None:
            await self._endpoints.close()
        await asyncio.gather(self._keys.close(), self._partners.close(), self._status.close())

    async def _follow_feed(self, store: Store | None) -> None:
        if store == self._feed_store:
            return
        client = open_client(store) if store is not None else None
        if self._feed is not None:
            await self._feed.close()
        self._feed, self._feed_store = None, store
        if client is not None:
            self._feed = RevocationFeed(
                client, self._denylist, self._instance, self._clock, self._note_change, self._note_feed
            )
            await self._feed.start()

    def _note_change(self, _denylist: Denylist) -> None:
        self._unsaved = True

    def _note_feed(self, good: bool) -> None:
        self._recorder.feed_heard(good=good)
        if good and self.live is not None:
            self.live.heard = self._clock()

    async def _follow_files(self) -> None:
        """Take up changed key files and denylists; bad ones change nothing."""
        while True:
            await asyncio.sleep(FILE_INTERVAL)
            reader, live = self._reader, self.live
            if reader is None or live is None or not await asyncio.to_thread(reader.poll):
                continue
            try:
                filed = await asyncio.to_thread(reader.read)
            except ValueError as error:
                self._recorder.files_refused(str(error))
                continue
            if reader is self._reader:
                live.api_keys, live.filed = filed.keys, filed.denylist

    async def _save(self) -> None:
        """Keep on disk what the feed told, so that a restart without the feed forgets no revocation."""
        while True:
            await asyncio.sleep(SAVE_INTERVAL)
            if not self._unsaved or self._state is None:
                continue
            self._unsaved = False
            try:
                await asyncio.to_thread(save_denylist, self._state, self._denylist.copy())
            except OSError as error:
                self._unsaved = True
                self._recorder.files_refused(str(error))


async def _close_later(close: Callable[[], Awaitable[None]]) -> None:
    try:
        await asyncio.sleep(PARTING)
    finally:
        await close()
