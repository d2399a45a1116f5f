"""The token bucket (GCRA, counted in tokens) in whole numbers.

A bucket is full with `burst` tokens and gains `count` of them every `period`. It is kept as the number of whole tokens
at one instant, the anchor; what it holds later follows by one floored division, so that no fraction is ever rounded
away: seven a minute are seven in every minute for years. The anchor moves only to instants at which the number of
tokens is whole.

The tick is the caller's: nanoseconds in memory, microseconds in Redis, as long as `now` and `period` share it.
`bucket.lua` says the same in Lua; tests/ratelimit/test_script.py holds the two equal.
"""

from typing import NamedTuple

from model.quota import Outcome, Quota
from ratelimit.store import Draw


class Bucket(NamedTuple):
    """`tokens` at the tick `anchor`.

    `high` is the largest burst that this bucket was granted: a raised limit lends its new room at once, and only once,
    even where two versions of a policy take turns. `born` is the tick at which the bucket came into being, full.
    """

    anchor: int
    tokens: int
    high: int
    born: int


def refill(bucket: Bucket | None, quota: Quota, now: int) -> tuple[Bucket, int]:
    """Bring a bucket to `now` under the quota of today, and say how many whole tokens it holds.

    A balance above the burst is clamped to it. A clock that went back lends nothing and takes nothing: the balance
    stands and refills from `now` on.
    """
    anchor, tokens, high, born, level = _settle(bucket, quota, now)
    return Bucket(anchor, tokens, high, born), level


def _settle(bucket: Bucket | None, quota: Quota, now: int) -> tuple[int, int, int, int, int]:
    """Do what `refill` says. Plain numbers, since a spend builds a bucket of its own from them."""
    burst = quota.burst
    if bucket is None:
        return now, burst, burst, now, burst
    anchor, tokens, high, born = bucket
    if burst > high:
        tokens += burst - high
        high = burst
    elapsed = now - anchor
    if elapsed < 0:
        anchor, elapsed = now, 0
    period = quota.period
    if elapsed >= period:
        whole, elapsed = divmod(elapsed, period)
        anchor = now - elapsed
        tokens += whole * quota.count
    level = tokens + elapsed * quota.count // period
    if level >= burst:
        return now, burst, high, born, burst
    return anchor, tokens, high, born, level


def until(bucket: Bucket, quota: Quota, level: int, now: int) -> int:
    """Ticks from `now` until the bucket holds `level` tokens; one period where it never will."""
    missing = level - bucket.tokens
    if missing <= 0:
        return 0
    if quota.count <= 0:
        return quota.period
    return max(0, bucket.anchor - now - (-missing * quota.period // quota.count))


def spend(bucket: Bucket | None, quota: Quota, cost: int, now: int) -> tuple[Bucket | None, Outcome]:
    """Take `cost` tokens or none: the bucket afterwards, and how it went.

    A refused spend leaves the bucket as it was, but for an anchor that lay in the future. A cost of 0 is always
    allowed. A cost above the burst can never be accepted; its `retry_after` is then the time to a full bucket, at least
    one period.
    """
    anchor, tokens, high, born, level = _settle(bucket, quota, now)
    if cost <= level or not cost:
        after = Bucket(anchor, tokens - cost, high, born)
        return after, Outcome(True, max(level - cost, 0), 0, until(after, quota, quota.burst, now))
    settled = Bucket(anchor, tokens, high, born)
    reset = until(settled, quota, quota.burst, now)
    retry = max(reset, quota.period) if cost > quota.burst else until(settled, quota, cost, now)
    kept = settled if bucket is not None and bucket.anchor > now else bucket
    return kept, Outcome(False, max(level, 0), retry, reset)


def refund(bucket: Bucket, quota: Quota, cost: int, now: int) -> Bucket:
    """Put `cost` tokens back; what is above the burst is lost."""
    settled, _ = refill(bucket, quota, now)
    return settled._replace(tokens=settled.tokens + cost)


def whole_at(bucket: Bucket, quota: Quota, now: int) -> int:
    """Ticks from `now` until the bucket may be forgotten: it is full by every burst that it was granted."""
    return until(bucket, quota, max(bucket.high, quota.burst), now)


def draw(bucket: Bucket | None, quota: Quota, wish: Draw, since: int, now: int) -> tuple[Bucket, int, int]:
    """Charge what an instance owes and grant what it wants, all or in part: the bucket afterwards, granted, left.

    Where the bucket was forgotten in between, nothing is granted before the others have reported what they know of it.
    `since` is that of the wish, in the bucket's ticks.
    """
    settled, level = refill(bucket, quota, now)
    reborn = settled.born > since
    charge = max(wish.owed, wish.deficit) if reborn else wish.owed
    granted = min(wish.want, 0 if reborn else max(level - charge, 0))
    taken = charge + granted
    return settled._replace(tokens=settled.tokens - taken), granted, level - taken
