"""Keeping places of concurrent limits: renewed while the exchange lasts that took them, freed the moment it ends."""

import asyncio
import contextlib
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
        ended = asyncio.Event()
        task = asyncio.create_task(self._keep(read_places(text), ended), name="places")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return ended.set

    def part(self) -> None:
        """Free nothing from now on: this worker goes, and the exchanges that it held places for go on without it."""
        self._parting = True

    async def _keep(self, charges: Sequence[Charge], ended: asyncio.Event) -> None:
        interval = min(charge.quota.period for charge in charges) / BEATS / SECOND
        while not ended.is_set():
            try:
                async with asyncio.timeout(interval):
                    await ended.wait()
            except TimeoutError:
                with contextlib.suppress(LimiterUnavailable):  # the next sign of life may still come in time
                    await self.limiter.spend(charges, self._clock())
        if not self._parting:
            await self.limiter.release(charges, self._clock())
