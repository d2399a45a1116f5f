"""Places held at one time (streams, for instance): each by its id, and only until it shows no sign of life.

A place is taken by spending, renewed by spending again with the same id, and freed by release or, where the proxy that
held it died, one period after its last renewal. So a place cannot leak.
"""

from collections.abc import Mapping

from model.quota import Outcome, Quota

Places = Mapping[str, int]
"""Id of the holder -> tick until which the place is held."""


def spend(places: Places | None, quota: Quota, holder: str, now: int) -> tuple[Places, Outcome]:
    """Take or renew the place of `holder`: the places afterwards, and how it went.

    `retry_after` of a refusal is the time until the first place falls free by itself; it may be earlier.
    """
    held = {name: min(expiry, now + quota.period) for name, expiry in (places or {}).items() if expiry > now}
    if holder not in held and len(held) >= quota.count:
        soonest = min(held.values(), default=now + quota.period) - now
        return held, Outcome(False, 0, soonest, reset(held, now))
    held[holder] = now + quota.period
    return held, Outcome(True, max(quota.count - len(held), 0), 0, reset(held, now))


def peek(places: Places | None, quota: Quota, now: int) -> Outcome:
    """How many places are free, taking none."""
    held = {name: expiry for name, expiry in (places or {}).items() if expiry > now}
    return Outcome(True, max(quota.count - len(held), 0), 0, reset(held, now))


def refund(places: Places, holder: str) -> Places:
    """Free the place of `holder`."""
    return {name: expiry for name, expiry in places.items() if name != holder}


def reset(places: Places, now: int) -> int:
    """Ticks until every place would have fallen free by itself."""
    return max(places.values(), default=now) - now
