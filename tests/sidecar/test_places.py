"""Places are renewed while an exchange lasts, freed when it ends, and left to expire by a worker that goes."""

import asyncio
import time

from model.instant import MILLISECOND
from model.place import write_places
from model.quota import Charge, LimiterUnavailable, Quota
from ratelimit.limiter import MemoryLimiter
from sidecar.places import Keeper
from tests.sidecar.build import until

QUICK = Quota("streams", 1, 30 * MILLISECOND, 1, concurrent=True)


def held(holder):
    return Charge(QUICK, ("route", "streams"), holder=holder)


class Heard(MemoryLimiter):
    """A limiter that remembers signs of life and releases, and can be away."""

    def __init__(self):
        super().__init__()
        self.signs, self.freed, self.away = 0, [], False

    async def spend(self, charges, now):
        self.signs += 1
        if self.away:
            raise LimiterUnavailable
        return await super().spend(charges, now)

    async def release(self, charges, now):
        self.freed += charges
        await super().release(charges, now)


async def test_signs_of_life_are_given_until_the_exchange_ends_and_then_the_place_is_free():
    limiter = Heard()
    keeper = Keeper(limiter, time.time_ns)
    let_go = keeper.hold(write_places([held("a")]))
    assert len(keeper) == 1
    await until(lambda: limiter.signs >= 5)
    (refused,) = limiter.admit([held("b")], time.time_ns())
    assert not refused.allowed
    let_go()
    await until(lambda: not len(keeper))
    (passed,) = limiter.admit([held("b")], time.time_ns())
    assert (passed.allowed, limiter.freed) == (True, [held("a")])


async def test_a_store_that_is_away_for_a_while_loses_no_exchange():
    limiter = Heard()
    limiter.away = True
    keeper = Keeper(limiter, time.time_ns)
    let_go = keeper.hold(write_places([held("a")]))
    await until(lambda: limiter.signs >= 2)
    limiter.away, before = False, limiter.signs
    await until(lambda: limiter.signs > before)
    let_go()
    await until(lambda: limiter.freed == [held("a")])


async def test_an_exchange_that_ends_at_once_frees_its_place_all_the_same():
    """Its task has not run once by then."""
    limiter = Heard()
    keeper = Keeper(limiter, time.time_ns)
    keeper.hold(write_places([held("a")]))()
    await until(lambda: limiter.freed == [held("a")], 2)


async def test_a_worker_that_goes_frees_nothing_whose_stream_goes_on():
    limiter = Heard()
    keeper = Keeper(limiter, time.time_ns)
    let_go = keeper.hold(write_places([held("a")]))
    await asyncio.sleep(0)
    keeper.part()
    let_go()
    await until(lambda: not len(keeper))
    assert limiter.freed == []
