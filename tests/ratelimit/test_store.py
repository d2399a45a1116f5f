"""One behaviour suite for every store: memory, and real Redis as a single server, behind Sentinel and as a Cluster."""

from dataclasses import replace

import pytest

from model.instant import HOUR, MILLISECOND, MINUTE, SECOND
from model.snapshot import Store as Settings
from ratelimit.memory import MemoryStore
from ratelimit.redis import RedisStore
from ratelimit.store import Draw, permits
from tests.ratelimit.build import START, bucket_of, charge_of, places_of, window_of

REDIS = [pytest.param(kind, marks=pytest.mark.redis) for kind in ("single", "sentinel", "cluster")]


class Clocked:
    """A store whose time is `now`; Redis servers are told it, where in service they read their own clock."""

    def __init__(self, store):
        self.store = store
        self.now = START

    async def spend(self, *charges):
        return await self.store.spend(charges, self.now)

    async def allowed(self, *charges):
        return permits(charges, await self.spend(*charges))

    async def draw(self, charge, owed=0, want=0, **more):
        (drawn,) = await self.store.draw([Draw(charge, owed, want, **more)], self.now)
        return drawn

    async def left(self, charge):
        (outcome,) = await self.store.peek([charge], self.now)
        return outcome.remaining


@pytest.fixture(params=["memory", *REDIS])
async def store(request):
    if request.param == "memory":
        yield Clocked(MemoryStore())
        return
    servers = request.getfixturevalue(request.param)
    for server in getattr(servers, "servers", [servers]):
        if server.client().info("server")["redis_mode"] != "sentinel" and server.client().role()[0] == b"master":
            server.client().flushall()
    urls = (servers.url,) if request.param == "single" else servers.urls
    redis = RedisStore(
        Settings("redis", request.param, urls, service="limits", budget=SECOND)  # a slow machine is not what is tested
    )
    clocked = Clocked(redis)
    redis.date(lambda: clocked.now)
    await redis.start(5)
    yield clocked
    await redis.close()


async def test_a_bucket_gives_its_burst_and_then_one_token_at_a_time(store):
    charge = charge_of(bucket_of(2, SECOND, burst=3))
    first = [await store.allowed(charge) for _ in range(4)]
    store.now += SECOND // 2
    later = [await store.allowed(charge) for _ in range(2)]

    assert first + later == [True, True, True, False, True, False]


async def test_an_outcome_says_what_is_left_and_when_the_rest_comes(store):
    charge = charge_of(bucket_of(2, SECOND, burst=3))
    (outcome,) = await store.spend(charge)

    assert (outcome.remaining, outcome.retry_after, outcome.reset) == (2, 0, SECOND // 2)


async def test_a_refusal_promises_the_instant_at_which_it_ends(store):
    charge = charge_of(bucket_of(1, MINUTE))
    await store.spend(charge)
    (refused,) = await store.spend(charge)
    store.now += refused.retry_after - MILLISECOND
    early = await store.allowed(charge)
    store.now += MILLISECOND

    assert (early, await store.allowed(charge)) == (False, True)


async def test_a_window_holds_its_count_over_any_period(store):
    charge = charge_of(window_of(2, MINUTE))
    times = (0, 59 * SECOND, SECOND - 1_000, 1_000)
    allowed = []
    for pause in times:
        store.now += pause
        allowed.append(await store.allowed(charge))

    assert allowed == [True, True, False, True]


async def test_places_are_held_renewed_and_freed(store):
    a, b, c = (charge_of(places_of(2), holder=name) for name in "abc")
    taken = [await store.allowed(charge) for charge in (a, b, c, a)]
    await store.store.refund([b], store.now)
    freed = await store.allowed(c)
    store.now += MINUTE

    assert (taken, freed) == ([True, True, False, True], True)
    assert await store.left(a) == 2


async def test_a_spend_refused_by_one_limit_costs_the_others_nothing(store):
    """R-03: after a flood by one user the site has lost what passed, and others are served."""
    site, user, other = (
        charge_of(bucket_of(100, HOUR, name="site"), "site", principal="s"),
        charge_of(bucket_of(5, HOUR, name="user"), "u", principal="s"),
        charge_of(bucket_of(10, HOUR, name="user"), "v", principal="s"),
    )
    flood = [await store.allowed(site, user) for _ in range(30)]

    assert sum(flood) == 5
    assert await store.left(site) == 95
    assert all([await store.allowed(site, other) for _ in range(10)])


async def test_the_outcome_of_a_limit_that_would_have_allowed_shows_what_is_still_there(store):
    """R-08: the refusing limit alone says no, with its own numbers."""
    minute, hour = bucket_of(60, MINUTE, name="minute"), bucket_of(1, HOUR, name="hour")
    await store.spend(charge_of(hour))
    first, second = await store.spend(charge_of(minute), charge_of(hour))

    assert (first.allowed, first.remaining, second.allowed, second.remaining) == (True, 60, False, 0)
    assert second.retry_after == HOUR


async def test_limits_of_several_principals_are_all_or_nothing_too(store):
    wide = charge_of(bucket_of(10, HOUR, name="wide"), "w", principal="a")
    narrow = charge_of(bucket_of(1, HOUR, name="narrow"), "n", principal="b")
    allowed = [await store.allowed(wide, narrow) for _ in range(3)]
    for _ in range(50):
        left = await store.left(wide)
        if left == 9:
            break

    assert (allowed, left) == ([True, False, False], 9)


async def test_a_trial_limit_is_counted_beside_the_enforced_one_and_never_refuses(store):
    enforced = charge_of(bucket_of(3, HOUR))
    trial = charge_of(replace(bucket_of(1, HOUR), enforced=False))
    spends = [await store.spend(enforced, trial) for _ in range(4)]

    assert [(first.allowed, second.allowed) for first, second in spends] == [
        (True, True), (True, False), (True, False), (False, False),
    ]  # fmt: skip


async def test_one_key_twice_in_a_spend_is_charged_twice(store):
    charge = charge_of(bucket_of(3, HOUR))

    assert [await store.allowed(charge, charge) for _ in range(2)] == [True, False]
    assert await store.left(charge) == 1


@pytest.mark.parametrize("quota", [bucket_of(10), window_of(10)], ids=["bucket", "window"])
async def test_a_huge_cost_is_refused_and_costs_nothing(store, quota):
    """R-01."""
    (outcome,) = await store.spend(charge_of(quota, cost=4_294_967_295))

    assert (outcome.allowed, outcome.remaining) == (False, 10)
    assert await store.allowed(charge_of(quota, cost=10))


async def test_a_changed_quota_holds_for_the_next_request(store):
    """F-08: lowered with 900 left, then raised while exhausted."""
    thousand, ten = bucket_of(1000, HOUR), bucket_of(10, HOUR)
    await store.spend(charge_of(thousand, cost=100))
    lowered = [await store.allowed(charge_of(ten)) for _ in range(11)]

    assert lowered == [True] * 10 + [False]
    other = charge_of(ten, "other", cost=10)
    await store.spend(other)
    assert await store.allowed(charge_of(thousand, "other"))


ODD = [
    "",
    ":",
    "a",
    "a:b",
    "b:c",
    "|",
    "_",
    "\n",
    "\0",
    "{",
    "}",
    "{x}",
    " ",
    "é",
    "😀",
    "\ud800",
    "x" * 4096,
    "y" * 100_000,
]


async def test_keys_of_odd_parts_never_meet(store):
    """R-06: ("a:b", "c") is not ("a", "b:c"), and "" is not missing."""
    quota = bucket_of(1, HOUR)
    keys = [(one, other) for one in ODD for other in ("", "c", "b:c")] + [(one,) for one in ODD] + [("a", "", "")]
    charges = [charge_of(quota, *key, principal=key[0]) for key in keys]

    assert [await store.allowed(charge) for charge in charges] == [True] * len(keys)
    assert [await store.allowed(charge) for charge in charges] == [False] * len(keys)


async def test_a_draw_charges_what_is_owed_and_grants_what_is_there(store):
    charge = charge_of(bucket_of(10, HOUR))
    first = await store.draw(charge, owed=4, want=4)
    second = await store.draw(charge, want=4)

    assert (first.granted, first.left, second.granted, second.left) == (4, 2, 2, 0)
    assert second.reset == HOUR


async def test_a_draw_gives_back_what_was_not_used(store):
    charge = charge_of(bucket_of(10, HOUR))
    await store.draw(charge, want=8)
    given = await store.draw(charge, want=-5)

    assert (given.granted, given.left) == (-5, 7)


async def test_what_is_owed_beyond_an_empty_bucket_is_paid_before_the_next_grant(store):
    charge = charge_of(bucket_of(10, SECOND))
    await store.draw(charge, owed=12)
    store.now += SECOND // 10

    assert (await store.draw(charge, want=1)).granted == 0
    store.now += SECOND // 5
    assert (await store.draw(charge, want=1)).granted == 1


async def test_a_bucket_that_the_store_forgot_is_charged_what_the_share_lacked(store):
    charge = charge_of(bucket_of(10, HOUR))
    before = await store.draw(charge, owed=1)
    known = await store.draw(charge, owed=1, deficit=8, since=before.at)
    forgotten = await store.draw(charge_of(charge.quota, "new"), owed=1, deficit=8, since=before.at - MINUTE)

    assert (known.left, forgotten.left) == (8, 2)


async def test_what_a_window_is_owed_is_recorded_whatever_it_holds(store):
    charge = charge_of(window_of(10))
    await store.spend(charge_of(charge.quota, cost=8))
    drawn = await store.draw(charge, owed=5, want=3)

    assert (drawn.granted, drawn.left, drawn.reset) == (0, -3, MINUTE)
    assert not await store.allowed(charge)
    store.now += MINUTE
    assert await store.left(charge) == 10


async def test_peeking_counts_nothing(store):
    charge = charge_of(bucket_of(2, HOUR))
    await store.spend(charge)

    assert [await store.left(charge) for _ in range(3)] == [1, 1, 1]
