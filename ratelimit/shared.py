"""The limiter over a shared store: leases in front, the share behind, and the traffic between them and Redis.

Three things run in the background, and no decision waits for any of them: drawing for hot keys, the sign of life by
which the instances know how many they are, and the search for a server that went away.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, runtime_checkable
from uuid import uuid4

from model.instant import SECOND, Duration, Instant
from model.quota import Charge, Outcome, Quota
from model.snapshot import Store as Settings
from ratelimit.ledger import Ledger
from ratelimit.store import Draw, Drawn, Store, StoreAway

PACE = 0.01
BEAT = 1.0
PATIENCE = 1.0
# Instances hold places of this quota: who has not beaten for three beats is gone.
INSTANCES = Quota("instances", 2**31, 3 * SECOND, 0, concurrent=True)

_log = logging.getLogger(__name__)


class Backing(Store, Protocol):
    """A store that has to be reached, and can be away. `mode` is "shared", "share" while a part is away, "" before."""

    mode: str

    async def start(self, patience: float) -> None:
        """Look for the store, waiting at most `patience` seconds; the search may go on in the background."""
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...

    def away(self, charge: Charge) -> bool:
        """Whether the part of the store that counts this charge is away, as far as is known."""
        ...


@runtime_checkable
class Forgetful(Protocol):
    """A store that can come back without its data."""

    def lost(self, charge: Charge) -> Duration:
        """How long ago the part that counts this charge came back empty, while it is being told; else 0."""
        ...


class SharedLimiter:
    """See `ratelimit.limiter.OpenLimiter`. `clock` reads nanoseconds since the epoch.

    `instances` is how many are known to share the store before any of them has shown a sign of life.
    """

    def __init__(
        self, store: Backing, settings: Settings, clock: Callable[[], Instant], instances: int = 1, name: str = ""
    ) -> None:
        self.store = store
        self._lost = store.lost if isinstance(store, Forgetful) else _never
        self.ledger = Ledger(store.away, self._wake, self._lost)
        self._settings = settings
        self._least = instances
        self._clock = clock
        self._sign = Charge(INSTANCES, ("instances",), 1, "instances", name or uuid4().hex)
        self._work = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._counts: deque[int] = deque(maxlen=4)
        self._resize(1)

    def admit(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome] | None:
        """See `model.quota.Limiter`."""
        if self._settings.leases:
            return self.ledger.admit(charges, now)
        if any(self.store.away(charge) or self._lost(charge) for charge in charges):
            return self.ledger.share.take(charges, now)
        return None

    async def spend(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        """See `model.quota.Limiter`; while the store is away, the share answers."""
        if not self._settings.leases:
            return await self._spend_plainly(charges, now)
        asking = self.ledger.begin(charges, now)
        try:
            outcomes = await self.store.spend(asking.questions, now) if asking.rest else ()
        except StoreAway:
            return self.ledger.abandon(asking, now)
        return self.ledger.finish(asking, outcomes, now)

    async def start(self) -> None:
        """Begin the background work, and wait a moment for the store; it may come later."""
        await self.store.start(PATIENCE)
        await self._beat()
        self._tasks = [asyncio.create_task(self._draw_on()), asyncio.create_task(self._beat_on())]

    async def close(self) -> None:
        """Report what is owed, give back what is held, and end the background work."""
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self._draw(self.ledger.drain())
        with suppress(StoreAway):
            await self.store.refund([self._sign], 0)
        await self.store.close()

    async def peek(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        """Tell what is left of each quota by the store, or by the share while it is away; nothing is counted."""
        try:
            return await self.store.peek(charges, now)
        except StoreAway:
            return self.ledger.share.look(charges, now)

    async def refund(self, charges: Sequence[Charge], now: Instant) -> None:
        """Give hits back to the store, or to the share while it is away."""
        try:
            await self.store.refund(charges, now)
        except StoreAway:
            self.ledger.share.refund(charges, now)

    async def release(self, charges: Sequence[Charge], now: Instant) -> None:
        """Free the holders' places. While the store is away they fall free by themselves."""
        held = [charge for charge in charges if charge.quota.concurrent]
        self.ledger.share.refund(held, now)
        with suppress(StoreAway):
            await self.store.refund(held, now)

    def health(self) -> str:
        """Name the mode in force: "shared", or "share" while a server is away."""
        return self.store.mode or "share"

    async def _spend_plainly(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        try:
            return await self.store.spend(charges, now)
        except StoreAway:
            return self.ledger.share.take(charges, now)

    def _wake(self) -> None:
        self._work.set()

    async def _draw_on(self) -> None:
        """Draw for whatever is in use, at most once in `PACE` seconds; sleep while nothing is."""
        while True:
            if not len(self.ledger):
                await self._work.wait()
            self._work.clear()
            wishes = self.ledger.due(self._clock())
            if wishes:
                self.ledger.settle(wishes, await self._draw_guarded([wish for _, wish in wishes]), self._clock())
            await asyncio.sleep(PACE)

    async def _draw_guarded(self, draws: Sequence[Draw]) -> Sequence[Drawn | None]:
        """Draw, or learn that nothing came of it, which is as if that part of the store were away."""
        try:
            return await self._draw(draws)
        except Exception:  # noqa: BLE001 - a task that dies would leave every later decision to what is held
            _log.exception("drawing failed")
            await asyncio.sleep(BEAT)
            return [None] * len(draws)

    async def _draw(self, draws: Sequence[Draw]) -> Sequence[Drawn | None]:
        return await self.store.draw(draws, 0) if draws else ()

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            await self._beat()

    async def _beat(self) -> None:
        """Show a sign of life, and count those of the others."""
        try:
            (outcome,) = await self.store.spend([self._sign], 0)
        except StoreAway:
            return
        except Exception:  # noqa: BLE001 - an instance that shows no more signs of life would be given away
            _log.exception("no sign of life")
            return
        self._resize(INSTANCES.count - outcome.remaining)

    def _resize(self, instances: int) -> None:
        """Take a new count of instances; a fall is believed once it lasts: a store that lost its data knows none."""
        self._counts.append(max(instances, self._least))
        self.ledger.instances = max(self._counts)
        share = self._settings.share
        self.ledger.share.part = (share, 1000) if share else (1, self.ledger.instances)


def _never(charge: Charge) -> Duration:
    del charge
    return 0
