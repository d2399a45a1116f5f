"""Limits that several workers count together in the memory of their parent."""

import asyncio
import socket
import time
from contextlib import asynccontextmanager

import pytest

from model.instant import MILLISECOND, MINUTE
from model.quota import Charge, Quota
from model.snapshot import Store
from ratelimit.limiter import open_limiter
from ratelimit.store import StoreAway
from sidecar.link import Link
from sidecar.pool import Pool, PooledStore

QUOTA = Quota("partner", 600, MINUTE, 100)


def charge(client="alpha"):
    return Charge(QUOTA, ("partner", client), 1, client)


async def nobody(kind, value):
    raise AssertionError(kind)


@asynccontextmanager
async def line(pool, budget=5 * MILLISECOND):
    """A worker's store at one end of a real line, the parent's counters at the other."""
    ends = socket.socketpair()
    parent, worker = Link(ends[0], pool.answer), Link(ends[1], nobody)
    await parent.open()
    await worker.open()
    serving = [asyncio.create_task(link.serve()) for link in (parent, worker)]
    try:
        yield PooledStore(worker.ask, budget)
    finally:
        worker.close()
        parent.close()
        await asyncio.gather(*serving)


async def spend(limiter, charges):
    now = time.time_ns()
    outcomes = limiter.admit(charges, now)
    return outcomes if outcomes is not None else await limiter.spend(charges, now)


async def test_workers_together_let_no_more_pass_than_one_would():
    """D-07: two workers with one memory hold one limit, not two."""
    pool = Pool(time.time_ns)
    async with line(pool, MINUTE) as one, line(pool, MINUTE) as two:
        limiters = [open_limiter(Store(), time.time_ns, pool=store, instances=2) for store in (one, two)]
        for limiter in limiters:
            await limiter.start()
        started = time.monotonic()
        answers = [await spend(limiters[n % 2], [charge()]) for n in range(400)]
        refilled = (time.monotonic() - started) * QUOTA.count / 60
        passed = sum(outcome.allowed for (outcome,) in answers)
        for limiter in limiters:
            await limiter.close()

    assert 40 <= passed <= QUOTA.burst + refilled + 1


async def test_count_outlives_the_worker_that_made_it():
    """A worker that dies and comes back finds what its clients have spent."""
    pool = Pool(time.time_ns)
    async with line(pool, MINUTE) as store:
        await store.spend([Charge(QUOTA, ("partner", "alpha"), 90, "alpha")], 0)
    async with line(pool, MINUTE) as store:
        (outcome,) = await store.peek([charge()], 0)

    assert outcome.remaining <= 20


async def test_parent_that_does_not_answer_costs_the_budget_once():
    """A parent that is busy is an outage of the store: the share answers, and no decision waits for long."""

    class Silent(Pool):
        async def answer(self, kind, value):
            await asyncio.Event().wait()

    async with line(Silent(time.time_ns)) as store:
        assert not store.away(charge())
        with pytest.raises(StoreAway):
            await store.spend([charge()], 0)
        assert store.away(charge())


async def test_parent_that_is_gone_is_away_too():
    """A closed line is no exception of another kind."""
    async with line(Pool(time.time_ns)) as store:
        pass
    with pytest.raises(StoreAway):
        await store.spend([charge()], 0)


async def test_worker_can_ask_for_nothing_but_limits():
    """The line carries questions about counters only."""
    with pytest.raises(LookupError):
        await Pool(time.time_ns).answer("apply", None)
