from model.instant import HOUR, MINUTE, SECOND
from ratelimit.memory import ForwardClock, MemoryStore
from tests.ratelimit.build import START, bucket_of, charge_of


def test_counters_that_are_whole_again_are_forgotten_as_new_ones_come():
    store = MemoryStore()
    for number in range(3_000):
        store.take([charge_of(bucket_of(1), f"early-{number}")], START)
    for number in range(3_000):
        store.take([charge_of(bucket_of(1), f"late-{number}")], START + MINUTE)

    assert len(store) <= 3_100


def test_a_store_never_holds_more_than_its_capacity():
    store = MemoryStore(capacity=100)
    for number in range(1_000):
        store.take([charge_of(bucket_of(1, HOUR), f"{number}")], START)

    assert len(store) <= 100


def test_a_counter_that_is_not_whole_survives_a_flood_of_others():
    store = MemoryStore()
    spent = charge_of(bucket_of(1, HOUR), "spent")
    store.take([spent], START)
    for number in range(5_000):
        store.take([charge_of(bucket_of(1), f"{number}")], START + number * SECOND // 10)

    assert not store.take([spent], START + 10 * MINUTE)[0].allowed


def test_one_call_stamped_in_the_past_refills_nothing():
    """R-10: exhausted at T, one call at T - 10, then calls at T again."""
    store = MemoryStore()
    charge = charge_of(bucket_of(2, SECOND, burst=4))
    times = [START] * 4 + [START - 10 * SECOND] + [START] * 4
    allowed = [store.take([charge], now)[0].allowed for now in times]

    assert allowed == [True] * 4 + [False] * 5


def test_a_clock_set_back_an_hour_blocks_no_longer_than_the_refill():
    """R-10."""
    store = MemoryStore()
    charge = charge_of(bucket_of(2, SECOND, burst=4))
    for _ in range(4):
        store.take([charge], START + HOUR)
    store.take([charge], START)

    assert store.take([charge], START + SECOND // 2)[0].allowed


def test_the_forward_clock_runs_on_from_a_clock_that_was_set_back():
    clock = ForwardClock()

    assert [clock.read(now) for now in (100, 40, 45, 100, 107)] == [100, 100, 105, 160, 167]


def test_the_forward_clock_forgives_a_single_slow_reading():
    clock = ForwardClock()

    assert [clock.read(now) for now in (100, 90, 100, 110)] == [100, 100, 100, 110]
