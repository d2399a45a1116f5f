"""Keeping places of concurrent limits: renewed while the exchange lasts that took them, freed the moment it ends."""

import asyncio
from collections.abc import Callable, Sequence

from model.instant import SECOND, Instant
from model.place import read_places
from model.quota import Charge, LimiterUnavailable
from ratelimit.limiter import OpenLimiter

BEATS = 3
"""Signs of life within the time for which a place is held without one: two may be lost."""


class Keeper:
    """Holds the places of all exchanges of one worker. `limiter` is swapped as one attribute on reload."""

    def __init__(self, limiter: OpenLimiter, clock: Callable[[], Instant]) -> None:
        self.limiter = limiter
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._parting = False

    def __len__(self) -> int:
        """Count the exchanges whose places are held."""
        return len(self._tasks)

    def hold(self, text: str) -> Callable[[], None]:
        """Hold the places that a text names until the function that is given back is called.

        Raises ValueError for a text that `model.place.write_places` has not written.
        """
        task = asyncio.create_task(self._keep(read_places(text)), name="places")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        def let_go() -> None:
            task.cancel()

        return let_go

    def part(self) -> None:
        """Free nothing from now on: this worker goes, and the exchanges that it held places for go on without it."""
        self._parting = True

    async def _keep(self, charges: Sequence[Charge]) -> None:
        interval = min(charge.quota.period for charge in charges) / BEATS / SECOND
        try:
            while True:
                await asyncio.sleep(interval)
                try:
                    await self.limiter.spend(charges, self._clock())
                except LimiterUnavailable:
                    continue  # the next sign of life may still come in time
        finally:
            if not self._parting:
                await self.limiter.release(charges, self._clock())
