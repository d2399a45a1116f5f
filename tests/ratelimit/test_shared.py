"""The limiter over real Redis: leases in front, the share behind, and every way in which Redis can be away."""

import asyncio
import time

import pytest

from model.instant import HOUR, MINUTE, SECOND
from model.snapshot import Store as Settings
from ratelimit.limiter import open_limiter
from ratelimit.memory import MemoryStore
from ratelimit.redis import RedisStore
from ratelimit.shared import BEAT, SharedLimiter
from tests.ratelimit.build import bucket_of, charge_of, places_of, window_of
from tests.ratelimit.servers import Server, free_port

pytestmark = pytest.mark.redis


class Watched:
    """A limiter, and the changes of mode that it named."""

    def __init__(self, url, **options):
        self.modes = []
        settings = Settings("redis", "single", (url,), **({"budget": SECOND} | options))
        store = RedisStore(settings, lambda mode, cause: self.modes.append((mode, cause)))
        self.limiter = SharedLimiter(store, settings, time.time_ns)

    async def __aenter__(self):
        await self.limiter.start()
        return self

    async def __aexit__(self, *_):
        await self.limiter.close()

    async def decide(self, *charges):
        now = time.time_ns()
        outcomes = self.limiter.admit(charges, now)
        return outcomes if outcomes is not None else await self.limiter.spend(charges, now)

    async def allowed(self, *charges):
        return all(outcome.allowed for outcome in await self.decide(*charges))


@pytest.fixture
def url(single):
    single.client().flushall()
    return single.url


@pytest.mark.parametrize("leases", [True, False])
async def test_two_instances_share_one_limit_exactly(url, leases):
    charge = charge_of(bucket_of(10, HOUR))
    async with Watched(url, leases=leases) as one, Watched(url, leases=leases) as two:
        await one.limiter._beat()
        allowed = 0
        for _ in range(15):
            for instance in (one, two):
                allowed += await instance.allowed(charge)
                await asyncio.sleep(0.015)

    assert allowed == 10


async def test_hot_keys_ask_the_store_far_less_than_once_a_decision(url):
    charge = charge_of(bucket_of(10**6))
    async with Watched(url) as watched:
        before = watched.limiter.store.calls
        for _ in range(2_000):
            await watched.decide(charge)
            await asyncio.sleep(0)
        calls = watched.limiter.store.calls - before

    assert calls < 2_000 * 0.05


async def test_what_an_instance_holds_goes_back_when_it_closes(url):
    charge = charge_of(bucket_of(100, HOUR))
    async with Watched(url) as one, Watched(url) as two:
        await one.limiter._beat()
        for _ in range(5):
            await one.decide(charge)
            await asyncio.sleep(0.015)
        await one.limiter.close()
        (left,) = await two.limiter.peek([charge], 0)
        await one.limiter.store.start()

    assert left.remaining == 95


async def test_instances_count_each_other_by_their_signs_of_life(url):
    async with Watched(url) as one, Watched(url) as two:
        await one.limiter._beat()
        both = (one.limiter.ledger.instances, two.limiter.ledger.instances)
    async with Watched(url) as alone:
        assert (both, alone.limiter.ledger.instances) == ((2, 2), 1)


async def test_places_are_freed_by_release(url):
    a, b = (charge_of(places_of(1), holder=name) for name in "ab")
    async with Watched(url) as watched:
        first, second = await watched.allowed(a), await watched.allowed(b)
        await watched.limiter.release([a], 0)
        watched.limiter.ledger._leases.clear()

        assert (first, second, await watched.allowed(b)) == (True, False, True)


async def test_redis_killed_and_started_again_empty_gives_no_second_burst(tmp_path):
    """D-07, and the heart of the degraded mode: all the way through, no more than burst and refill."""
    server = Server(tmp_path).start()
    quota = bucket_of(600, MINUTE, burst=20)
    async with Watched(server.url) as watched:
        began = time.monotonic()
        allowed = 0

        async def hammer(seconds):
            nonlocal allowed
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                allowed += await watched.allowed(charge_of(quota))
                await asyncio.sleep(0.002)

        await hammer(0.5)
        server.kill()
        await hammer(1.0)
        away = watched.limiter.health()
        server.start()
        await hammer(2.0)
        back = watched.limiter.health()
        elapsed = time.monotonic() - began
    server.stop()

    assert (away, back) == ("share", "shared")
    assert 10 * elapsed * 0.8 < allowed <= 20 + 10 * elapsed + 1
    assert [mode for mode, _ in watched.modes] == ["shared", "share", "shared"]


class Hangup(asyncio.Protocol):
    """Accepts, and closes at once."""

    def connection_made(self, transport):
        transport.close()


async def faulty(kind, single):
    if kind == "wrong port":
        return f"redis://127.0.0.1:{free_port()}", {}
    if kind == "unknown name":
        return "redis://limits.invalid:6379", {}
    if kind == "wrong password":
        return single.url, {"password": "wrong"}
    if kind == "TLS where there is none":
        return single.url.replace("redis:", "rediss:"), {}
    return f"redis://127.0.0.1:{HANGUP}", {}


HANGUP = free_port()


@pytest.mark.parametrize(
    "kind", ["wrong port", "unknown name", "wrong password", "TLS where there is none", "hangs up"]
)
async def test_a_store_that_cannot_be_reached_at_the_start_leaves_every_instance_its_share(single, kind):
    """D-05 and D-06: served from the share, named once, never an error."""
    listener = await asyncio.get_running_loop().create_server(Hangup, "127.0.0.1", HANGUP)
    url, options = await faulty(kind, single)
    async with Watched(url, **options) as watched:
        outcomes = [(await watched.decide(charge_of(bucket_of(3, HOUR)), charge_of(window_of(9))))[0] for _ in range(5)]
        (left,) = await watched.limiter.peek([charge_of(bucket_of(3, HOUR))], time.time_ns())
    listener.close()

    assert [outcome.allowed for outcome in outcomes] == [True, True, True, False, False]
    assert all(outcome.degraded for outcome in outcomes)
    assert left.remaining == 0
    assert len(watched.modes) == 1
    assert watched.modes[0][0] == "share"
    assert "wrong" not in watched.modes[0][1].replace("WRONGPASS", "")


async def test_a_configured_share_bounds_an_instance_that_knows_nobody(url):
    async with Watched(f"redis://127.0.0.1:{free_port()}", share=250) as watched:
        allowed = [await watched.allowed(charge_of(bucket_of(20, HOUR))) for _ in range(10)]

    assert sum(allowed) == 5


def test_settings_that_name_no_store_are_refused():
    with pytest.raises(ValueError, match="etcd"):
        open_limiter(Settings("etcd"), time.time_ns)
    with pytest.raises(ValueError, match="ring"):
        open_limiter(Settings("redis", "ring", ("redis://x",)), time.time_ns)


class Faulty(MemoryStore):
    """A store whose first draws and spends break in a way that nobody foresaw."""

    mode = "shared"

    def __init__(self, faults):
        super().__init__()
        self.faults = faults
        self.drawn = asyncio.Event()

    async def start(self, _patience):
        pass

    async def close(self):
        pass

    def away(self, _charge):
        return False

    async def draw(self, draws, now):
        self.fail()
        found = await super().draw(draws, now)
        self.drawn.set()
        return found

    async def spend(self, charges, now):
        self.fail()
        return await super().spend(charges, now)

    def fail(self):
        if self.faults:
            self.faults -= 1
            raise ZeroDivisionError


async def test_a_fault_of_ours_does_not_end_the_traffic_with_the_store(monkeypatch, caplog):
    """Background work that dies would leave every later decision to what is held by then."""
    monkeypatch.setattr("ratelimit.shared.BEAT", 0)
    limiter = SharedLimiter(store := Faulty(1), Settings("redis", "single", ()), time.time_ns)
    await limiter.start()
    charge = charge_of(bucket_of(1000, HOUR))
    assert (await limiter.spend([charge], time.time_ns()))[0].allowed
    store.faults = 1
    limiter.admit([charge], time.time_ns())
    async with asyncio.timeout(10):
        await store.drawn.wait()
    await limiter.close()
    assert "no sign of life" in caplog.text
    assert store.faults == 0


def test_an_instance_is_gone_after_three_missed_beats():
    from ratelimit.shared import INSTANCES

    assert INSTANCES.period == 3 * BEAT * SECOND


async def test_memory_always_answers_at_once():
    limiter = open_limiter(Settings(), time.time_ns)
    await limiter.start()
    charge = charge_of(bucket_of(1, HOUR))
    outcomes = [limiter.admit([charge], time.time_ns())[0].allowed for _ in range(2)]
    place = charge_of(places_of(1), holder="a")
    await limiter.spend([place], time.time_ns())
    await limiter.release([place], time.time_ns())
    (left,) = await limiter.peek([place], time.time_ns())
    await limiter.close()

    assert (outcomes, limiter.health(), left.remaining) == ([True, False], "memory", 1)
