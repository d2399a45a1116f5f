"""A store that comes back without its data: all instances together give no more than the one bucket had left."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.instant import MILLISECOND, SECOND
from ratelimit.epoch import SETTLE, Epochs
from ratelimit.ledger import Ledger
from ratelimit.memory import MemoryStore
from ratelimit.store import Draw, StoreAway
from tests.ratelimit.build import START, bucket_of, charge_of, places_of, redis_store
from tests.ratelimit.servers import Server


class Store(MemoryStore):
    """`lost_at` is when the first instance missed what was in it."""

    lost_at = None


class Instance:
    """A ledger that is at home in `fleet.store`, or looks for it until `back`."""

    def __init__(self, fleet, instances):
        self.fleet = fleet
        self.store = fleet.store
        self.back = 0
        self.ledger = Ledger(lambda _charge: self.store is not fleet.store, lost=self.lost)
        self.ledger.instances = instances
        self.ledger.share.part = (1, instances)

    def lost(self, _charge):
        since = SETTLE if self.store.lost_at is None else self.fleet.now - self.store.lost_at
        return max(since, 1) if since < SETTLE else 0

    def find(self):
        store = self.fleet.store
        if store is not self.store and self.fleet.now >= self.back:
            store.lost_at = store.lost_at or self.fleet.now
            self.store = store

    def allowed(self, charge):
        outcomes = self.ledger.admit([charge], self.fleet.now)
        if outcomes is None:
            asking = self.ledger.begin([charge], self.fleet.now)
            outcomes = self.ledger.finish(asking, self.store.take(asking.questions, self.fleet.now), self.fleet.now)
        return outcomes[0].allowed

    def draw(self):
        wishes = self.ledger.due(self.fleet.now)
        drawn = asyncio.run(self.store.draw([wish for _, wish in wishes], self.fleet.now)) if wishes else ()
        self.ledger.settle(wishes, drawn, self.fleet.now)


class Fleet:
    """Instances that draw in any order, and a caller that asks them in any order."""

    def __init__(self, instances, seed):
        self.now = START
        self.store = Store()
        self.instances = [Instance(self, instances) for _ in range(instances)]
        self.random = random.Random(seed)
        self.times = []

    def run(self, charge, duration, each):
        """Let `each` instance be asked with that probability in every millisecond."""
        end = self.now + duration
        while self.now < end:
            self.now += MILLISECOND
            for instance in self.random.sample(self.instances, len(self.instances)):
                instance.find()
                if self.random.random() < each and instance.allowed(charge):
                    self.times.append(self.now)
                if self.random.random() < 0.1:
                    instance.draw()

    def lose(self, delays):
        """Replace the store by an empty one, which the instances find after so many milliseconds."""
        self.store = Store()
        for instance, delay in zip(self.instances, delays, strict=True):
            instance.back = self.now + delay * MILLISECOND


def overdraft(times, quota, lost):
    """Replay admissions against the one bucket that they were meant to come from: its lack after `lost`."""
    full = level = quota.burst * quota.period
    last, worst, before = START, 0, True
    for when in times:
        level = min(full, level + (when - last) * quota.count)
        if before and when > lost:
            before, level = False, max(level, 0)  # what was too much before is not the loss's doing
        level, last = level - quota.period, when
        worst = worst if before else max(worst, -level)
    return worst / quota.period


@given(
    seed=st.integers(0, 2**32),
    delays=st.lists(st.integers(0, 900), min_size=2, max_size=4),
    each=st.sampled_from([0.01, 0.05, 0.3]),
)
@settings(max_examples=15, deadline=None)
def test_an_empty_store_gives_no_second_burst_whoever_finds_it_first(seed, delays, each):
    """But for one request an instance, which its share, in whole tokens, may be ahead by."""
    fleet = Fleet(len(delays), seed)
    charge = charge_of(bucket_of(20, SECOND, burst=40))
    fleet.run(charge, 2 * SECOND, each)
    fleet.lose(delays)
    lost = fleet.now
    fleet.run(charge, SETTLE + 2 * SECOND, each)

    assert overdraft(fleet.times, charge.quota, lost) <= len(delays)


def test_a_key_of_a_server_that_lost_its_data_is_decided_by_the_share():
    charge = charge_of(bucket_of(10, SECOND, burst=10))
    calm, lost = Ledger(lambda _charge: False), Ledger(lambda _charge: False, lost=lambda _charge: 1)

    assert calm.admit([charge], START) is None
    outcomes = lost.admit([charge], START)
    assert outcomes is not None
    assert (outcomes[0].allowed, outcomes[0].degraded) == (True, True)


def test_a_fleet_that_starts_with_an_empty_store_gives_the_whole_burst():
    epochs = [Epochs() for _ in range(3)]

    assert [each.read("mark", b"1000 0 1000") for each in epochs] == [0, 0, 0]


@pytest.mark.redis
def test_whoever_knew_the_data_that_is_gone_marks_the_store_for_all(single):
    client = single.client()
    client.flushall()
    known, new = Epochs(), Epochs()

    def connect(epochs, now):
        return epochs.read("mark", client.execute_command(*epochs.command("mark", now)))

    first = [connect(known, START), connect(new, START + SECOND), connect(known, START + SECOND)]
    client.flushall()
    later = START + 10 * SECOND
    waits = [connect(known, later), connect(known, later + SECOND), connect(Epochs(), later + SECOND)]
    calm = [connect(known, later + SETTLE), connect(new, later + SETTLE)]

    assert first == [0, 0, 0]
    assert waits == [SETTLE, SETTLE - SECOND, SETTLE - SECOND]
    assert calm == [0, 0]
    assert client.pttl("mark") > 0


@pytest.mark.redis
async def test_a_server_that_came_back_empty_decides_nothing_before_it_was_told(tmp_path):
    server = Server(tmp_path).start()
    store, charge = redis_store(server), charge_of(bucket_of(10))
    await store.start()
    before = store.lost(charge)
    server.kill()
    with pytest.raises(StoreAway):
        await store.spend([charge], 0)
    server.start()
    await store.start()
    lost = store.lost(charge)
    with pytest.raises(StoreAway, match="lost its data"):
        await store.spend([charge], 0)
    (drawn,) = await store.draw([Draw(charge, 4, 0)], 0)
    (sign,) = await store.spend([charge_of(places_of(2), holder="a")], 0)
    await store.close()
    server.stop()

    assert (before, 0 < lost < SETTLE, drawn.left, sign.allowed) == (0, True, 6, True)
