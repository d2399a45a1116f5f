"""A store that comes back without its data: over any window, all instances together give no more than one bucket."""

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
        return self.store.lost_at is not None and self.fleet.now < self.store.lost_at + SETTLE

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


def overdraft(times, quota):
    """Replay admissions against the one bucket that they were meant to come from: the most that it fell short."""
    level, last, worst = quota.burst * quota.period, times[0], 0
    for when in times:
        level = min(quota.burst * quota.period, level + (when - last) * quota.count) - quota.period
        last, worst = when, max(worst, -level)
    return worst / quota.period


@given(
    seed=st.integers(0, 2**32),
    delays=st.lists(st.integers(0, 900), min_size=2, max_size=4),
    each=st.sampled_from([0.01, 0.05, 0.3]),
)
@settings(max_examples=15, deadline=None)
def test_an_empty_store_gives_no_second_burst_whoever_finds_it_first(seed, delays, each):
    """Two requests an instance: the whole one that its share may be ahead by, and what it has not reported yet."""
    fleet = Fleet(len(delays), seed)
    charge = charge_of(bucket_of(20, SECOND, burst=40))
    fleet.run(charge, 2 * SECOND, each)
    fleet.lose(delays)
    fleet.run(charge, SETTLE + 2 * SECOND, each)

    assert overdraft(fleet.times, charge.quota) <= 2 * len(delays)


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

    assert (before, lost, drawn.left, sign.allowed) == (False, True, 6, True)
