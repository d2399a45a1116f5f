"""How near this process is to its limit, measured as the event loop's lateness: a queue, whatever it is made of."""

import asyncio
from collections import deque
from collections.abc import Callable

from model.instant import MILLISECOND, SECOND, Duration
from sidecar import clock

PROBE: Duration = 10 * MILLISECOND
REST: Duration = 50 * MILLISECOND
"""Between two probes while they come in time: a hundred in a second were most of what an idle sidecar spent."""
TIMELY: Duration = 5 * MILLISECOND
SPAN = 4
"""Probes in a row that must be late: one that is late alone was held up by something that is over by then."""
FULL: Duration = 100 * MILLISECOND
"""The lateness that counts as no room at all: half of Envoy's default patience with ext_authz (200 ms)."""


class Pressure:
    """A probe that looks how late it is: every 50 ms, and every 10 ms from the first one on that is late.

    `saturation` is 0 (idle) to 1 (no room): the least lateness of the last few probes. A queue makes all of them late,
    and the first one in time after the load has gone ends it. `tell` is told after each probe.
    """

    def __init__(self, tell: Callable[[float], None] = lambda _saturation: None) -> None:
        self.saturation = 0.0
        self._tell = tell
        self._late: deque[Duration] = deque([0] * SPAN, SPAN)

    def note(self, late: Duration) -> None:
        """Take one measurement, in nanoseconds."""
        self._late.append(late)
        self.saturation = min(1.0, max(0, min(self._late)) / FULL)
        self._tell(self.saturation)

    def pause(self) -> Duration:
        """Tell how long to wait for the next probe, in nanoseconds."""
        return PROBE if self._late[-1] > TIMELY else REST

    async def watch(self) -> None:
        """Measure until cancelled."""
        while True:
            before, pause = clock.elapsed(), self.pause()
            await asyncio.sleep(pause / SECOND)
            self.note(clock.elapsed() - before - pause)
