"""An instance's own part of every limit, from which it decides while the shared store is away.

With eight instances, each may spend an eighth: it starts with an eighth of what was last known to be left and refills
at an eighth of the rate, so that all of them together stay within the limit. A burst smaller than the number of
instances still leaves one request to each.
"""

from collections.abc import Sequence
from dataclasses import replace

from model.instant import Duration, Instant
from model.quota import Algorithm, Charge, Outcome, Quota
from ratelimit.memory import MemoryStore

Part = tuple[int, int]
"""Numerator and denominator of an instance's part."""


def reduce(quota: Quota, part: Part) -> Quota:
    """Cut a quota down to a part of it; never to nothing where the quota itself allows anything."""
    top, bottom = part
    if quota.concurrent or quota.algorithm is Algorithm.WINDOW:
        return replace(quota, count=_cut(quota.count, part))
    return replace(quota, count=quota.count * top, period=quota.period * bottom, burst=_cut(quota.burst, part))


def _cut(number: int, part: Part) -> int:
    return max(number * part[0] // part[1], min(number, 1))


class Share:
    """Counters of the instance's part. `part` may change at any time; balances are clamped to the new one."""

    def __init__(self, part: Part = (1, 1)) -> None:
        self.part = part
        self._store = MemoryStore()

    def take(self, charges: Sequence[Charge], now: Instant) -> list[Outcome]:
        """Spend all charges or none from the instance's part; every outcome is marked as degraded."""
        outcomes = self._store.take([self._reduce(charge) for charge in charges], now)
        for outcome in outcomes:
            outcome.degraded = True
        return outcomes

    def seed(self, charge: Charge, left: int, owed: int, now: Instant) -> None:
        """Begin with the part of what was `left` in the whole bucket, less what this instance already `owed` then."""
        reduced = self._reduce(charge)
        tokens = max(left, 0) * self.part[0] // self.part[1] - owed
        self._store.seed(reduced, min(max(tokens, 0), reduced.quota.burst), now)

    def look(self, charges: Sequence[Charge], now: Instant) -> list[Outcome]:
        """Tell what is left of the part, counting nothing."""
        outcomes = [self._store.look(self._reduce(charge), now) for charge in charges]
        for outcome in outcomes:
            outcome.degraded = True
        return outcomes

    def refund(self, charges: Sequence[Charge], now: Instant) -> None:
        """Give back what the charges took of the part."""
        self._store.put_back([self._reduce(charge) for charge in charges], now)

    def deficit(self, charge: Charge, now: Instant) -> int:
        """Tell how much the part of a limit lacks to be whole; rounded up, so that the parts make a whole."""
        reduced = self._reduce(charge)
        left = self._store.look(reduced, now).remaining
        if charge.quota.algorithm is Algorithm.WINDOW:
            return reduced.quota.count - left
        top, bottom = self.part
        return -(-charge.quota.burst * top // bottom) - left

    def gain(self, charge: Charge, span: Duration) -> int:
        """Tell how many tokens the part of a bucket gains in a span; rounded up. Windows gain nothing."""
        if charge.quota.algorithm is Algorithm.WINDOW:
            return 0
        quota = self._reduce(charge).quota
        return -(-span * quota.count // quota.period)

    def _reduce(self, charge: Charge) -> Charge:
        return replace(charge, quota=reduce(charge.quota, self.part))
