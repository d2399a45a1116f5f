"""The sliding window in whole numbers, strict: never more than `count` in any window of one `period`.

The window is a log of what was spent, kept short: spends that follow each other within one grain, a 64th of the
period, share one entry that carries the stamp of the latest of them. An entry leaves one period after its stamp, so
each spend is held against the caller for at least one period and for at most one grain longer. So the limit holds over
every window wherever it starts, at least 64/65 of it can be used, and the log never has more than 65 entries. (Two
interpolated windows, the usual scheme, guess how the earlier window was spent and let up to twice the limit through.)

The tick is the caller's, as in `bucket`; `window.lua` says the same in Lua.
"""

from typing import NamedTuple

from model.quota import Outcome, Quota

GRAINS = 64


class Window(NamedTuple):
    """`entries` are (stamp of the latest spend, sum), oldest first; `first` is when the newest entry was opened."""

    first: int
    entries: tuple[tuple[int, int], ...]


def roll(window: Window | None, quota: Quota, now: int) -> tuple[Window, int]:
    """Drop what has left the window by `now`, and say how much is still in it.

    A stamp in the future (the clock went back) becomes `now`, so that it blocks for one period at most.
    """
    if window is None:
        return Window(now, ()), 0
    edge = now - quota.period
    entries = tuple((min(stamp, now), spent) for stamp, spent in window.entries if stamp > edge)
    return Window(min(window.first, now), entries), sum(spent for _, spent in entries)


def spend(window: Window | None, quota: Quota, cost: int, now: int) -> tuple[Window | None, Outcome]:
    """Record `cost` or nothing: the window afterwards, and how it went.

    A refused spend leaves the window as it was, but for stamps that lay in the future. A cost of 0 is always allowed.
    A cost above the count can never be accepted; its `retry_after` is then one period.
    """
    rolled, used = roll(window, quota, now)
    room = max(quota.count - used, 0)
    if cost > room:
        wait = _wait(rolled, quota, used + cost - quota.count, now)
        ahead = window is not None and window.entries and window.entries[-1][0] > now
        return rolled if ahead else window, Outcome(False, room, wait, reset(rolled, quota, now))
    after = _record(rolled, quota, cost, now) if cost else rolled
    return after, Outcome(True, room - cost, 0, reset(after, quota, now))


def refund(window: Window, quota: Quota, cost: int, now: int) -> Window:
    """Strike `cost` out again, the latest spends first."""
    rolled, _ = roll(window, quota, now)
    entries = list(rolled.entries)
    while cost > 0 and entries:
        stamp, spent = entries.pop()
        if spent > cost:
            entries.append((stamp, spent - cost))
        cost -= spent
    return Window(rolled.first, tuple(entries))


def record(window: Window | None, quota: Quota, spent: int, now: int) -> Window:
    """Add what was spent elsewhere, whatever the window holds."""
    rolled, _ = roll(window, quota, now)
    return _record(rolled, quota, spent, now) if spent else rolled


def reset(window: Window, quota: Quota, now: int) -> int:
    """Ticks until nothing is left in the window."""
    return window.entries[-1][0] + quota.period - now if window.entries else 0


def _record(window: Window, quota: Quota, cost: int, now: int) -> Window:
    entries = window.entries
    if entries and (now - window.first) * GRAINS < quota.period:
        return Window(window.first, (*entries[:-1], (now, entries[-1][1] + cost)))
    return Window(now, (*entries, (now, cost)))


def _wait(window: Window, quota: Quota, missing: int, now: int) -> int:
    """Ticks until `missing` more has left the window."""
    for stamp, spent in window.entries:
        missing -= spent
        if missing <= 0:
            return stamp + quota.period - now
    return quota.period
