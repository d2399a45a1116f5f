"""The simulated world: tenants with Zipf load, instances that each hold a ledger, and a store some way off.

Nothing of the limiter is imitated here. Instances run `ratelimit.ledger.Ledger`; the store is a `MemoryStore`, which
the behaviour suite holds equal to Redis. Only the wire between them is made up: it takes `DISTANCE` there and back, and
may be cut. Time is a number; the run is the same for the same seed.
"""

import asyncio
import heapq
import random
from dataclasses import dataclass, field

from model.instant import MILLISECOND, SECOND
from model.quota import Charge, Quota
from ratelimit.ledger import Ledger
from ratelimit.memory import MemoryStore

DISTANCE = MILLISECOND
PACE = 10 * MILLISECOND
START = 1_700_000_000 * SECOND


@dataclass(slots=True)
class Tenant:
    """`rate` requests a second against `quota`; what became of them."""

    name: str
    quota: Quota
    rate: float
    charge: Charge = field(init=False)
    asked: int = 0
    allowed: int = 0
    refused: int = 0
    series: list[int] = field(default_factory=list)  # allowed in each second

    def __post_init__(self):
        self.charge = Charge(self.quota, ("tenant", self.name), 1, self.name)

    @property
    def saturated(self):
        return self.rate > self.quota.count * SECOND / self.quota.period

    def entitled(self, seconds):
        """What the quota lets through at most in so many seconds, starting full."""
        return self.quota.burst + int(seconds * SECOND) * self.quota.count // self.quota.period


@dataclass(slots=True)
class Tally:
    decisions: int = 0
    waits: int = 0
    hot_waits: int = 0
    calls: int = 0
    degraded: int = 0


class World:
    """`instances` ledgers over one store; `cut` is the (from, until) in seconds in which the store is away."""

    def __init__(self, tenants, instances, seconds, seed=1, cut=None):
        self.tenants = tenants
        self.seconds = seconds
        self.tally = Tally()
        self.now = START
        self._random = random.Random(seed)
        self._cut = cut
        self._store = MemoryStore()
        self._ledgers = [Ledger(self._away) for _ in range(instances)]
        for ledger in self._ledgers:
            ledger.instances = instances
            ledger.share.part = (1, instances)
        self._seen = [{} for _ in range(instances)]
        self._events = []
        self._order = 0

    def run(self):
        """Play all requests and everything that follows from them."""
        for number in range(len(self._ledgers)):
            self._at(START + self._random.randrange(PACE), self._draw, number)
        for tenant in self.tenants:
            self._at(START + self._gap(tenant), self._request, tenant)
        end = START + self.seconds * SECOND
        while self._events and self._events[0][0] < end:
            self.now, _, play, *args = heapq.heappop(self._events)
            play(*args)
        return self

    def _at(self, time, play, *args):
        self._order += 1
        heapq.heappush(self._events, (time, self._order, play, *args))

    def _gap(self, tenant):
        return int(self._random.expovariate(tenant.rate) * SECOND)

    def _away(self, _charge):
        return self._cut is not None and self._cut[0] * SECOND <= self.now - START < self._cut[1] * SECOND

    def _request(self, tenant):
        self._at(self.now + self._gap(tenant), self._request, tenant)
        number = self._random.randrange(len(self._ledgers))
        ledger, charges = self._ledgers[number], (tenant.charge,)
        self.tally.decisions += 1
        tenant.asked += 1
        outcomes = ledger.admit(charges, self.now)
        last, self._seen[number][tenant.name] = self._seen[number].get(tenant.name), self.now
        if outcomes is not None:
            self._count(tenant, outcomes[0])
            return
        self.tally.waits += 1
        self.tally.hot_waits += last is not None and self.now - last < SECOND
        self.tally.calls += 1
        asking = ledger.begin(charges, self.now)
        self._at(self.now + DISTANCE // 2, self._spend, ledger, tenant, asking)

    def _spend(self, ledger, tenant, asking):
        if self._away(tenant.charge):
            self._at(self.now + 5 * MILLISECOND, self._abandon, ledger, tenant, asking)
            return
        outcomes = self._store.take(asking.questions, self.now)
        self._at(self.now + DISTANCE // 2, self._finish, ledger, tenant, asking, outcomes)

    def _finish(self, ledger, tenant, asking, outcomes):
        self._count(tenant, ledger.finish(asking, outcomes, self.now)[0])

    def _abandon(self, ledger, tenant, asking):
        self._count(tenant, ledger.abandon(asking, self.now)[0])

    def _draw(self, number):
        ledger = self._ledgers[number]
        wishes = ledger.due(self.now)
        if wishes:
            self.tally.calls += 1
            self._at(self.now + DISTANCE // 2, self._serve, number, wishes)
        else:
            self._at(self.now + PACE, self._draw, number)

    def _serve(self, number, wishes):
        if self._away(None):
            self._at(self.now + 5 * MILLISECOND, self._settle, number, wishes, [None] * len(wishes))
            return
        drawn = run_now(self._store.draw([wish for _, wish in wishes], self.now))
        self._at(self.now + DISTANCE // 2, self._settle, number, wishes, drawn)

    def _settle(self, number, wishes, drawn):
        self._ledgers[number].settle(wishes, drawn, self.now)
        self._at(self.now + PACE, self._draw, number)

    def _count(self, tenant, outcome):
        self.tally.degraded += outcome.degraded
        if not outcome.allowed:
            tenant.refused += 1
            return
        tenant.allowed += 1
        second = (self.now - START) // SECOND
        while len(tenant.series) <= second:
            tenant.series.append(0)
        tenant.series[second] += 1


def run_now(coroutine):
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise asyncio.InvalidStateError("the store waited")


LONE = 10
"""Rank of the tenant that asks for 40,000 a minute and may have 600."""


def zipf_tenants(count, total):
    """`count` tenants that share `total` requests a second by Zipf's law.

    Every fourth asks for twice what it may, the others may have half as much again as they ask for; buckets hold two
    seconds' worth. One alone asks for 40,000 a minute against 600.
    """
    weight = sum(1 / rank for rank in range(1, count + 1))
    tenants = []
    for rank in range(1, count + 1):
        rate = total / rank / weight
        per_minute = max(int(rate * 60 * (0.5 if rank % 4 == 2 else 1.5)), 60)
        if rank == LONE:
            rate, per_minute = 40_000 / 60, 600
        quota = Quota("tenant", per_minute, 60 * SECOND, max(per_minute // 30, 10))
        tenants.append(Tenant(f"tenant-{rank}", quota, rate))
    return tenants
