"""Instants and durations: integers of nanoseconds, so that no rounding is ever hidden in a float."""

MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

Instant = int
"""Nanoseconds since the Unix epoch."""

Duration = int
"""Nanoseconds."""


def whole_seconds(duration: Duration) -> int:
    """Whole seconds for a `Retry-After` field: rounded up, at least 1 (RFC 9110 section 10.2.3)."""
    return max(1, -(-duration // SECOND))
