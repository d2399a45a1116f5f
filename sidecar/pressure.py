"""How near this process is to its limit, measured as the event loop's lateness: a queue, whatever it is made of."""

import asyncio

from model.instant import MILLISECOND, SECOND, Duration
from sidecar import clock

PROBE: Duration = 10 * MILLISECOND
FULL: Duration = 100 * MILLISECOND
"""The lateness that counts as no room at all: half of Envoy's default patience with ext_authz (200 ms)."""


class Pressure:
    """A probe that should run every 10 ms and looks how late it is.

    `saturation` is 0 (idle) to 1 (no room). It rises at once and falls by an eighth with each probe in time, so that
    shedding starts with the first late probe and ends well within a second after the load has gone.
    """

    def __init__(self) -> None:
        self.saturation = 0.0

    def note(self, late: Duration) -> None:
        """Take one measurement, in nanoseconds."""
        now = min(1.0, max(0, late) / FULL)
        self.saturation = max(now, self.saturation - self.saturation / 8)

    async def watch(self) -> None:
        """Measure until cancelled."""
        while True:
            before = clock.elapsed()
            await asyncio.sleep(PROBE / SECOND)
            self.note(clock.elapsed() - before - PROBE)
