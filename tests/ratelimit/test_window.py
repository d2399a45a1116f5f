from hypothesis import given
from hypothesis import strategies as st

from model.instant import HOUR, MINUTE, SECOND
from ratelimit import window
from tests.ratelimit.build import START, window_of

quotas = st.builds(window_of, st.integers(1, 50), st.sampled_from([SECOND, MINUTE, 64, 1, 1_000_003]))
moves = st.lists(st.tuples(st.one_of(st.integers(0, 3), st.integers(0, MINUTE)), st.integers(0, 8)), max_size=80)


def play(quota, moves, now=START):
    state = None
    for pause, cost in moves:
        now += pause
        state, outcome = window.spend(state, quota, cost, now)
        yield now, cost, outcome, state


@given(quotas, moves)
def test_no_window_of_one_period_holds_more_than_the_count_wherever_it_starts(quota, moves):
    allowed = [(now, cost) for now, cost, outcome, _ in play(quota, moves) if outcome.allowed]

    for first, _ in allowed:
        assert sum(cost for now, cost in allowed if first <= now < first + quota.period) <= quota.count


@given(quotas, moves)
def test_a_refused_spend_is_refused_until_the_promised_instant_and_accepted_exactly_at_it(quota, moves):
    for now, cost, outcome, state in play(quota, moves):
        if not outcome.allowed and cost <= quota.count:
            promised = now + outcome.retry_after
            assert not window.spend(state, quota, cost, promised - 1)[1].allowed
            assert window.spend(state, quota, cost, promised)[1].allowed


@given(quotas, moves)
def test_the_log_stays_short(quota, moves):
    assert all(state is None or len(state.entries) <= window.GRAINS + 1 for *_, state in play(quota, moves))


def test_nearly_all_of_the_limit_can_be_used_under_steady_load():
    """One grain in 65 is the price of a short log."""
    quota = window_of(1000, SECOND)
    allowed = sum(outcome.allowed for _, _, outcome, _ in play(quota, [(SECOND // 2000, 1)] * 20_000))

    assert allowed >= 10 * 1000 * 64 // 65


def test_a_burst_at_the_edge_of_a_minute_counts_in_the_next_one():
    """R-11: 10 at 11:59:59.9 leave nothing for 12:00:00.1."""
    quota = window_of(10)
    state = window.spend(None, quota, 10, START)[0]
    _, outcome = window.spend(state, quota, 1, START + SECOND // 5)

    assert (outcome.allowed, outcome.retry_after) == (False, MINUTE - SECOND // 5)


def test_a_cost_above_the_count_is_refused_with_one_period_to_wait():
    """R-01."""
    _, outcome = window.spend(None, window_of(10), 4_294_967_295, START)

    assert (outcome.allowed, outcome.remaining, outcome.retry_after) == (False, 10, MINUTE)


def test_a_clock_that_went_back_blocks_for_one_period_at_most():
    """R-10."""
    quota = window_of(1)
    state = window.spend(None, quota, 1, START + HOUR)[0]
    state, refused = window.spend(state, quota, 1, START)

    assert (refused.allowed, refused.retry_after) == (False, MINUTE)
    assert window.spend(state, quota, 1, START + MINUTE)[1].allowed


def test_a_changed_count_holds_for_the_next_request():
    """F-08."""
    state = window.spend(None, window_of(10), 8, START)[0]

    assert window.spend(state, window_of(5), 1, START)[1].remaining == 0
    assert window.spend(state, window_of(100), 92, START)[1].allowed


def test_a_refund_strikes_out_the_latest_spends():
    quota = window_of(10, SECOND)
    state = window.spend(None, quota, 4, START)[0]
    state = window.spend(state, quota, 4, START + SECOND // 2)[0]
    state = window.refund(state, quota, 5, START + SECOND // 2)

    assert window.roll(state, quota, START + SECOND // 2)[1] == 3
    assert window.roll(state, quota, START + SECOND)[1] == 0
