"""Leases by hand: a ledger, a memory store, and a clock that stands still until it is moved."""

import asyncio
from dataclasses import replace

from model.instant import HOUR, MILLISECOND, MINUTE, SECOND
from model.quota import Quota
from ratelimit.ledger import CALM, FORGET, FRESH, Ledger
from ratelimit.memory import MemoryStore
from tests.ratelimit.build import START, bucket_of, charge_of, places_of, window_of


class Instance:
    """A ledger and its way to a store, which can be cut."""

    def __init__(self, store=None, instances=1):
        self.store = MemoryStore() if store is None else store
        self.cut = False
        self.now = START
        self.asked = 0
        self.ledger = Ledger(lambda _charge: self.cut)
        self.ledger.instances = instances
        self.ledger.share.part = (1, instances)

    def decide(self, *charges):
        outcomes = self.ledger.admit(charges, self.now)
        if outcomes is None:
            self.asked += 1
            asking = self.ledger.begin(charges, self.now)
            outcomes = self.ledger.finish(asking, self.store.take(asking.questions, self.now), self.now)
        return outcomes

    def allowed(self, *charges):
        return all(outcome.allowed for outcome in self.decide(*charges))

    def draw(self, pause=10 * MILLISECOND):
        self.now += pause
        wishes = self.ledger.due(self.now)
        drawn = asyncio.run(self.store.draw([wish for _, wish in wishes], self.now))
        self.ledger.settle(wishes, drawn, self.now)
        return wishes

    def left(self, charge):
        return self.store.look(charge, self.now).remaining


def test_a_cold_key_is_asked_about_once_and_then_decided_here():
    instance = Instance()
    charge = charge_of(bucket_of(100, HOUR))
    allowed = [instance.allowed(charge) for _ in range(101)]

    assert (sum(allowed), instance.asked) == (100, 1)


def test_what_was_let_through_on_credit_is_reported_with_the_next_draw():
    instance = Instance()
    charge = charge_of(bucket_of(100, HOUR))
    for _ in range(30):
        instance.decide(charge)
    before = instance.left(charge)
    instance.draw()

    assert (before, instance.left(charge)) == (99, 70)


def test_two_instances_together_let_through_what_one_bucket_holds():
    store = MemoryStore()
    pair = [Instance(store, 2), Instance(store, 2)]
    charge = charge_of(bucket_of(50, HOUR))
    allowed = 0
    for _ in range(100):
        for instance in pair:
            allowed += instance.allowed(charge)
            instance.draw()

    assert allowed == 50


def test_tokens_are_taken_ahead_of_need_and_given_back_when_idle():
    instance = Instance(instances=2)
    charge = charge_of(bucket_of(1000, HOUR))
    for _ in range(20):
        for _ in range(5):
            instance.decide(charge)
        instance.draw()
    in_use = instance.left(charge)
    instance.draw(2 * SECOND)

    assert in_use < 900
    assert instance.left(charge) == 900


def test_a_remembered_refusal_is_not_asked_about_again_until_the_promised_instant():
    instance = Instance()
    charge = charge_of(bucket_of(1, MINUTE))
    instance.decide(charge)
    instance.draw()
    refused = instance.decide(charge)[0]
    asked = instance.asked
    for _ in range(50):
        instance.now += SECOND
        assert not instance.allowed(charge)
    instance.now = START + MINUTE

    assert refused.retry_after == MINUTE - 10 * MILLISECOND
    assert instance.asked == asked
    assert instance.allowed(charge)


def test_a_raised_limit_ends_a_remembered_refusal():
    """F-08: never past a raised limit."""
    instance = Instance()
    ten = bucket_of(10, HOUR)
    for _ in range(10):
        instance.decide(charge_of(ten))
    instance.draw()
    exhausted = instance.allowed(charge_of(ten))

    assert (exhausted, instance.allowed(charge_of(bucket_of(1000, HOUR)))) == (False, True)


def test_a_lowered_limit_holds_for_the_next_request():
    """F-08: 900 left of 1000, lowered to 10."""
    instance = Instance()
    for _ in range(100):
        instance.decide(charge_of(bucket_of(1000, HOUR)))
    instance.draw()
    low = bucket_of(10, HOUR)

    assert sum(instance.allowed(charge_of(low)) for _ in range(20)) == 10


def test_an_equal_quota_of_another_snapshot_changes_nothing():
    instance = Instance()
    for _ in range(10):
        instance.decide(charge_of(bucket_of(1000, HOUR)))

    assert instance.asked == 1


def test_a_refusal_by_one_limit_leaves_the_lease_of_the_other_whole():
    """R-03, locally."""
    instance = Instance()
    site, user = charge_of(bucket_of(100, HOUR, name="site")), charge_of(bucket_of(5, HOUR, name="user"))
    allowed = sum(instance.allowed(site, user) for _ in range(40))
    instance.draw()

    assert (allowed, instance.left(site)) == (5, 95)


def test_a_trial_quota_never_refuses_and_shows_where_it_would():
    instance = Instance()
    enforced, trial = charge_of(bucket_of(4, HOUR)), charge_of(replace(bucket_of(2, HOUR), enforced=False))
    spends = [[outcome.allowed for outcome in instance.decide(enforced, trial)] for _ in range(5)]

    assert [enforced for enforced, _ in spends] == [True] * 4 + [False]
    assert [trial for _, trial in spends[:4]] == [True, True, False, False]


def test_a_cost_larger_than_a_lease_is_asked_about():
    instance = Instance(instances=8)
    charge = charge_of(bucket_of(100, HOUR))
    instance.decide(charge)
    instance.draw()

    assert instance.allowed(charge_of(charge.quota, cost=60))
    assert not instance.allowed(charge_of(charge.quota, cost=60))


def test_windows_and_places_are_always_asked_about_but_their_refusals_remembered():
    instance = Instance()
    window, place = charge_of(window_of(2)), charge_of(places_of(1), holder="a")
    allowed = [instance.allowed(window) for _ in range(10)] + [instance.allowed(place)]

    assert allowed == [True] * 2 + [False] * 8 + [True]
    assert instance.asked == 4


def test_while_the_store_is_away_the_share_decides_without_asking():
    """D-06: a caller below its limit is served."""
    instance = Instance(instances=4)
    charge = charge_of(bucket_of(100, MINUTE))
    instance.decide(charge)
    instance.cut = True
    instance.now += 2 * SECOND
    outcomes = [instance.decide(charge)[0] for _ in range(50)]

    assert instance.asked == 1
    assert sum(outcome.allowed for outcome in outcomes) == 25
    assert outcomes[-1].degraded


def test_what_the_share_spent_is_charged_when_the_store_is_back():
    """D-07: no double refill."""
    instance = Instance()
    charge = charge_of(bucket_of(100, HOUR))
    instance.decide(charge)
    instance.cut = True
    instance.now += 2 * SECOND
    for _ in range(60):
        instance.decide(charge)
    instance.cut = False
    instance.draw()

    assert instance.left(charge) == 39


def test_what_was_let_through_of_a_window_meanwhile_counts_when_the_store_is_back():
    """No second count within one period, and no more than one period's worth however long the outage was."""
    instance = Instance()
    charge = charge_of(window_of(10))
    instance.cut = True
    for _ in range(30):
        instance.now += 5 * SECOND
        instance.decide(charge)
    instance.cut = False
    instance.draw()

    assert instance.left(charge) == 0
    instance.now += MINUTE
    assert instance.left(charge) == 10


def test_a_store_that_came_back_empty_is_told_what_was_spent_before_it_left():
    """A restart without data must not give everybody a full bucket again."""
    instance = Instance()
    charge = charge_of(bucket_of(100, HOUR))
    for _ in range(90):
        instance.decide(charge)
    instance.draw()
    instance.cut = True
    instance.now += 2 * SECOND
    instance.decide(charge)
    instance.store, instance.cut = MemoryStore(), False
    instance.draw()

    assert instance.left(charge) == 9


def test_after_an_outage_the_instance_keeps_to_its_share_until_the_others_have_reported():
    instance = Instance(instances=4)
    charge = charge_of(bucket_of(100, HOUR))
    instance.decide(charge)
    instance.cut = True
    instance.now += 2 * SECOND
    instance.decide(charge)
    instance.cut = False
    instance.draw()
    calm = instance.decide(charge)[0]
    instance.draw(CALM)

    assert (calm.degraded, instance.decide(charge)[0].degraded) == (True, False)


def test_a_draw_that_failed_is_reported_again():
    instance = Instance()
    charge = charge_of(bucket_of(100, HOUR))
    for _ in range(10):
        instance.decide(charge)
    wishes = instance.ledger.due(instance.now)
    instance.ledger.settle(wishes, [None], instance.now)
    instance.draw()

    assert instance.left(charge) == 90


def test_what_is_held_and_owed_goes_back_at_the_end():
    instance = Instance(instances=2)
    charge = charge_of(bucket_of(1000, HOUR))
    for _ in range(30):
        instance.decide(charge)
        instance.draw()
    asyncio.run(instance.store.draw(instance.ledger.drain(), instance.now))

    assert instance.left(charge) == 970


def test_keys_that_nobody_uses_are_forgotten():
    instance = Instance()
    for number in range(100):
        instance.decide(charge_of(bucket_of(10), f"{number}"))
    instance.draw()
    instance.draw(2 * SECOND)
    instance.draw(FORGET + SECOND)

    assert len(instance.ledger) == 0


def test_a_flood_of_keys_is_looked_after_in_turns(monkeypatch):
    """Decisions wait for a sweep: one of a hundred thousand keys would hold them up for a second."""
    monkeypatch.setattr("ratelimit.ledger.SWEEP", 10)
    instance = Instance(instances=2)
    charges = [charge_of(bucket_of(100, HOUR), str(number)) for number in range(35)]
    for charge in charges:
        instance.decide(charge)
    turns = [{wish.charge.key for _, wish in instance.draw(FRESH)} for _ in range(4)]

    assert [len(turn) for turn in turns] == [10, 10, 10, 5]
    assert set.union(*turns) == {charge.key for charge in charges}
    for _ in range(10):
        instance.draw(2 * FORGET)
    assert len(instance.ledger) == 0


def test_one_key_twice_in_a_spend_is_charged_twice():
    instance = Instance()
    charge = charge_of(bucket_of(3, HOUR))
    instance.decide(charge)

    assert [instance.allowed(charge, charge) for _ in range(2)] == [True, False]


def test_a_count_of_zero_is_refused_without_dividing_by_it():
    instance = Instance()
    charge = charge_of(Quota("none", 0, SECOND, 0))

    assert [instance.allowed(charge) for _ in range(3)] == [False] * 3


def test_an_outage_leaves_nothing_behind_of_keys_that_are_whole_again():
    """Debts are kept as long as they count, so that strangers who come once cannot fill the memory meanwhile."""
    instance = Instance()
    instance.cut = True
    for number in range(100):
        assert instance.allowed(charge_of(bucket_of(10, SECOND), str(number)))
    instance.decide(charge_of(bucket_of(10, HOUR), "slow"))
    owing = len(instance.ledger)
    instance.draw(FORGET + SECOND)

    assert (owing, len(instance.ledger)) == (101, 1)
