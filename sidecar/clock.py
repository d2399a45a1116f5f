"""The only reader of the clock; everything else takes the instant as an argument."""

import time

from model.instant import Duration, Instant


def now() -> Instant:
    """Nanoseconds since the Unix epoch."""
    return time.time_ns()


def elapsed() -> Duration:
    """Nanoseconds of a clock that never steps, for measuring how long something took."""
    return time.perf_counter_ns()
