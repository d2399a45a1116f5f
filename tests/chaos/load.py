"""Steady load on two instances of the limiter, and what it felt of a fault."""

import asyncio
import random
import time
from dataclasses import dataclass, field

from model.instant import MILLISECOND, MINUTE, SECOND
from model.quota import Charge, Quota
from ratelimit.redis import RedisStore
from ratelimit.shared import SharedLimiter

STALL = 0.010
TENANTS = 30
WORKERS = 12
INSTANCES = 2


@dataclass(slots=True)
class Felt:
    """What the load saw: (when, seconds that the decision took beyond the loop's own lag), and admissions by key."""

    decisions: int = 0
    slowest: float = 0.0
    stalls: int = 0
    admitted: dict[str, list[float]] = field(default_factory=dict)


class Pulse:
    """How late the loop itself runs: on a busy machine a decision cannot be quicker than that."""

    def __init__(self):
        self._late = []
        self._began = time.monotonic()

    async def beat(self):
        while True:
            self._began = time.monotonic()
            await asyncio.sleep(0.001)
            self._late.append((self._began, time.monotonic() - self._began - 0.001))
            del self._late[:-2000]

    def worst(self, since):
        unfinished = time.monotonic() - self._began - 0.001
        return max([unfinished, *(late for when, late in self._late[-200:] if when >= since - 0.05)])


class Load:
    """`WORKERS` callers that spread requests over tenants, half of which ask for more than they may."""

    def __init__(self, settings):
        stores = [RedisStore(settings, self._note) for _ in range(INSTANCES)]
        self.limiters = [SharedLimiter(store, settings, time.time_ns) for store in stores]
        self.quotas = [Quota("chaos", 60 * rate, MINUTE, 2 * rate) for rate in (20, 400)]
        self.felt = Felt()
        self.baseline = 0.0  # the slowest decision before the fault, once that is known
        self.modes = []
        self._pulse = Pulse()
        self._tasks = []
        self._random = random.Random(7)

    async def __aenter__(self):
        for limiter in self.limiters:
            await limiter.start()
        for limiter in self.limiters:
            await limiter._beat()
        callers = [self._call() for _ in range(WORKERS)]
        self._tasks = [asyncio.create_task(work) for work in (self._pulse.beat(), *callers)]
        return self

    async def __aexit__(self, *_):
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for limiter in self.limiters:
            await limiter.close()

    @property
    def mode(self):
        modes = {limiter.health() for limiter in self.limiters}
        return "shared" if modes == {"shared"} else "share"

    def _note(self, mode, cause):
        self.modes.append((time.monotonic(), mode, cause))

    async def _call(self):
        while True:
            number = self._random.randrange(TENANTS)
            charge = Charge(self.quotas[number % 2], (f"{number}",), 1, f"{number}")
            await self._decide(self._random.choice(self.limiters), charge)
            await asyncio.sleep(0.004 * self._random.random())

    async def _decide(self, limiter, charge):
        began, now = time.monotonic(), time.time_ns()
        outcomes = limiter.admit([charge], now)
        if outcomes is None:
            outcomes = await limiter.spend([charge], now)
        took = time.monotonic() - began
        if took > STALL:
            took -= self._pulse.worst(began)
        self.felt.decisions += 1
        self.felt.slowest = max(self.felt.slowest, took)
        self.felt.stalls += took > STALL + self.baseline
        if outcomes[0].allowed:
            self.felt.admitted.setdefault(charge.key[0], []).append(began)

    def unlimited(self):
        """Count intervals in which a tenant got more than a bucket of its limit can give: burst and refill."""
        found = 0
        for key, times in self.felt.admitted.items():
            quota = self.quotas[int(key) % 2]
            found += exceeds(times, quota)
        return found


def exceeds(times, quota):
    """Replay admissions against a bucket 2 % wider, and a request for each instance; count the seconds of overdraft."""
    rate = 1.02 * quota.count * SECOND / quota.period
    burst = 1.02 * quota.burst + INSTANCES
    level, last, found = burst, times[0], set()
    for when in times:
        level = min(burst, level + (when - last) * rate)
        last = when
        level -= 1
        if level < 0:
            found.add(int(when))
            level = 0
    return len(found)


BUDGET = 5 * MILLISECOND
