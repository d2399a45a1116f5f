from hypothesis import given
from hypothesis import strategies as st

from model.instant import DAY, HOUR, MINUTE, SECOND
from model.quota import Quota
from ratelimit import bucket
from tests.ratelimit.build import START, bucket_of

quotas = st.builds(
    Quota,
    st.just("q"),
    st.integers(1, 10_000),
    st.sampled_from([SECOND, MINUTE, HOUR, DAY, 7, 1_000_003]),
    st.integers(1, 5_000),
)
steps = st.lists(st.tuples(st.integers(0, 2 * MINUTE), st.integers(0, 20)), max_size=60)


def play(quota, moves, now=START):
    """Spend along the moves (pause, cost) and yield (now, cost, outcome, state before, state after)."""
    state = None
    for pause, cost in moves:
        now += pause
        before = state
        state, outcome = bucket.spend(state, quota, cost, now)
        yield now, cost, outcome, before, state


@given(quotas, steps)
def test_what_is_allowed_in_any_interval_is_at_most_burst_and_refill(quota, moves):
    """R-11: no double burst at any edge."""
    allowed = [(now, cost) for now, cost, outcome, _, _ in play(quota, moves) if outcome.allowed]

    for index, (first, _) in enumerate(allowed):
        total = 0
        for now, cost in allowed[index:]:
            total += cost
            assert total * quota.period <= quota.burst * quota.period + (now - first) * quota.count + quota.period - 1


@given(quotas, steps)
def test_a_refused_spend_is_refused_until_the_promised_instant_and_accepted_exactly_at_it(quota, moves):
    for now, cost, outcome, _, state in play(quota, moves):
        if not outcome.allowed and cost <= quota.burst:
            promised = now + outcome.retry_after
            assert not bucket.spend(state, quota, cost, promised - 1)[1].allowed
            assert bucket.spend(state, quota, cost, promised)[1].allowed


@given(quotas, steps)
def test_a_refused_spend_changes_nothing(quota, moves):
    """R-15: refusals consume nothing and do not move the refill stamp."""
    for _, _, outcome, before, after in play(quota, moves):
        if not outcome.allowed:
            assert after == before


@given(quotas, steps)
def test_reset_is_the_first_instant_at_which_the_bucket_is_full(quota, moves):
    for now, _, outcome, _, state in play(quota, moves):
        full = now + outcome.reset
        assert bucket.refill(state, quota, full)[1] == quota.burst
        if outcome.reset:
            assert bucket.refill(state, quota, full - 1)[1] < quota.burst


def test_seven_a_minute_are_seven_in_every_minute_for_a_year():
    """A refill of no whole number of nanoseconds loses nothing to rounding."""
    quota = bucket_of(7, MINUTE, burst=10)
    state = bucket.spend(None, quota, 10, START)[0]
    for number in range(1, 3_000):
        now = START + -(-number * MINUTE // 7)
        assert not bucket.spend(state, quota, 1, now - 1)[1].allowed
        state, outcome = bucket.spend(state, quota, 1, now)
        assert outcome.allowed


def test_a_steady_hammer_gets_the_burst_and_the_refill():
    """R-15: 5 a second against 50 a second for 30 s: 5 + 30 * 1."""
    quota = bucket_of(1, SECOND, burst=5)
    outcomes = [outcome for _, _, outcome, _, _ in play(quota, [(SECOND // 50, 1)] * 1500)]

    assert sum(outcome.allowed for outcome in outcomes) == 5 + 29


def test_a_huge_cost_is_refused_without_blocking_anybody():
    """R-01: 4294967295 on a bucket of 10."""
    quota = bucket_of(10)
    state, outcome = bucket.spend(None, quota, 4_294_967_295, START)

    assert (outcome.allowed, outcome.remaining, outcome.retry_after) == (False, 10, SECOND)
    assert bucket.spend(state, quota, 10, START)[1].allowed


def test_a_cost_of_nothing_is_always_allowed_and_counts_nothing():
    quota = bucket_of(3)
    state = bucket.spend(None, quota, 3, START)[0]
    after, outcome = bucket.spend(state, quota, 0, START)

    assert (outcome.allowed, outcome.remaining, after) == (True, 0, state)


def test_a_count_of_zero_allows_its_burst_and_then_never_again():
    quota = bucket_of(0, SECOND, burst=1)
    state, first = bucket.spend(None, quota, 1, START)
    _, second = bucket.spend(state, quota, 1, START + DAY)

    assert (first.allowed, second.allowed, second.retry_after) == (True, False, SECOND)


def test_a_clock_that_went_back_lends_nothing_and_blocks_no_longer_than_the_refill():
    """R-10: the balance stands, and refills from the earlier time on."""
    quota = bucket_of(2, SECOND, burst=4)
    state = bucket.spend(None, quota, 4, START + HOUR)[0]
    state, at_once = bucket.spend(state, quota, 1, START)
    state, after_half_a_second = bucket.spend(state, quota, 1, START + SECOND // 2)

    assert (at_once.allowed, after_half_a_second.allowed) == (False, True)


def test_a_clock_that_jumps_ahead_gives_one_full_bucket_at_most():
    """R-10."""
    quota = bucket_of(2, SECOND, burst=4)
    state = bucket.spend(None, quota, 4, START)[0]

    assert bucket.refill(state, quota, START + HOUR)[1] == 4


def test_a_lowered_quota_clamps_the_balance():
    """F-08: 900 left of 1000, lowered to 10."""
    state = bucket.spend(None, bucket_of(1000, MINUTE), 100, START)[0]
    low = bucket_of(10, MINUTE)

    assert bucket.spend(state, low, 10, START)[1].allowed
    assert not bucket.spend(state, low, 11, START)[1].allowed


def test_a_raised_quota_lets_the_next_request_pass():
    """F-08: 10 a minute exhausted, raised to 1000."""
    state = bucket.spend(None, bucket_of(10, MINUTE), 10, START)[0]
    _, outcome = bucket.spend(state, bucket_of(1000, MINUTE), 1, START)

    assert (outcome.allowed, outcome.remaining) == (True, 989)


def test_two_versions_of_a_quota_that_take_turns_lend_the_difference_once():
    """F-08: replicas that reload five seconds apart do not mint tokens."""
    low, high = bucket_of(10, HOUR), bucket_of(1000, HOUR)
    state, spent = None, 0
    for number in range(400):
        state, outcome = bucket.spend(state, (low, high)[number % 2], 10, START)
        spent += 10 * outcome.allowed

    assert spent <= 1000
