"""The Lua beside the arithmetic gives, on any sequence, what the arithmetic gives."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model.instant import DAY, HOUR, MICROSECOND, MINUTE, SECOND
from model.quota import Quota
from ratelimit import bucket, window
from ratelimit.script import SOURCE
from ratelimit.store import Draw
from tests.ratelimit.build import START, charge_of, window_of

pytestmark = pytest.mark.redis


def run(client, verb, fields, now):
    """One call of the script itself, in microseconds; in one transaction, so that nothing expires by Redis's clock."""
    with client.pipeline() as transaction:
        reply, _ = transaction.eval(SOURCE, 1, "k", str(now), f"{verb} 1", fields).persist("k").execute()
    return [int(number) for number in reply.split()][1:]


periods = st.sampled_from([SECOND, MINUTE, HOUR, DAY, 30 * DAY]).map(lambda period: period // MICROSECOND)
buckets = st.builds(Quota, st.just("q"), st.integers(0, 2**33), periods, st.integers(1, 2**34))
windows = st.builds(window_of, st.integers(0, 2**33), periods)
moves = st.lists(
    st.tuples(
        st.one_of(st.integers(-(10**6), 10**6), st.integers(0, 10**11)),
        st.one_of(st.integers(0, 5), st.integers(0, 2**34)),
        st.booleans(),
    ),
    min_size=1,
    max_size=25,
)


@pytest.mark.parametrize(("kind", "room"), [("b", bucket), ("w", window)])
@given(data=st.data(), steps=moves)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lua_equals_python_on_any_sequence(single, kind, room, data, steps):
    """Clocks that go back, changed quotas and products beyond 2^53 included."""
    client = single.client()
    client.delete("k")
    quotas = data.draw(st.lists(buckets if kind == "b" else windows, min_size=2, max_size=2))
    state, now = None, START // MICROSECOND
    for pause, cost, other in steps:
        quota, now = quotas[other], now + pause
        state, outcome = room.spend(state, quota, cost, now)
        answer = run(client, "spend", f"{kind} {quota.count} {quota.period} {quota.burst} {cost} 1", now)
        expected = [outcome.allowed, outcome.remaining, outcome.retry_after, outcome.reset]
        assert answer == [min(number, 2**52) for number in expected]


@given(
    bucket_of_many=buckets.filter(lambda quota: quota.count),
    steps=st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 50), st.integers(-9, 50), st.integers(0, 90))),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_draws_in_lua_equal_draws_in_python(single, bucket_of_many, steps):
    client = single.client()
    client.delete("k")
    quota, state, now = bucket_of_many, None, START // MICROSECOND
    for pause, owed, want, deficit in steps:
        now += pause
        wish = Draw(charge_of(quota), owed, want, deficit)
        since = now - 1 if owed % 2 else 2**52
        state, granted, left = bucket.draw(state, quota, wish, since, now)
        fields = f"b {quota.count} {quota.period} {quota.burst} {owed} {want} {deficit} {since}"
        expected = [granted, left, min(bucket.until(state, quota, quota.burst, now), 2**52)]
        assert run(client, "draw", fields, now) == expected
