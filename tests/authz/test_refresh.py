"""The background refresher: what it fetches, when, and what survives when it cannot. All on a clock of its own."""

import asyncio
from collections import Counter

import pytest

from authz.download import Download, DownloadFailed
from authz.refresh import ABSENT_LIMIT, KeyRefresher
from authz.token import Claims, UnknownKey, verify_token
from model.instant import DAY, MINUTE, SECOND
from model.reason import Reason
from tests.authz.tokens import NOW, issuer, jwk, key_set, token

OTHER = "https://b.example"
BAD_BODIES = [b"<html>down for maintenance</html>", b'{"keys":[]}', b'{"keys":[{"kty":"RSA"', b"", b"null"]


class Hours:
    """A clock that moves only when told, and a sleep that wakes by it."""

    def __init__(self):
        self.now = NOW
        self.sleepers = []

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        woken = asyncio.get_running_loop().create_future()
        self.sleepers.append((self.now + int(seconds * SECOND), woken))
        await woken

    async def advance(self, duration):
        """Let time pass, stopping at every instant at which somebody wakes."""
        end = self.now + duration
        while True:
            await settle()
            self.sleepers = [(at, woken) for at, woken in self.sleepers if not woken.done()]
            due = sorted((at for at, _ in self.sleepers if at <= end))
            if not due:
                break
            self.now = max(self.now, due[0])
            for at, woken in self.sleepers:
                if at <= self.now and not woken.done():
                    woken.set_result(None)
        self.now = end
        await settle()


class Endpoints:
    """Key sets by URL; an exception stands for an endpoint that fails so, an event for one that hangs until set."""

    def __init__(self, **places):
        self.places = {f"https://{name}.example/keys": body for name, body in places.items()}
        self.fetches = Counter()
        self.fresh_for = None

    def put(self, name, body):
        self.places[f"https://{name}.example/keys"] = body

    def count(self, name):
        return self.fetches[f"https://{name}.example/keys"]

    async def fetch(self, url):
        self.fetches[url] += 1
        body = self.places[url]
        if isinstance(body, asyncio.Event):
            await body.wait()
            body = self.places[url]
        if isinstance(body, Exception):
            raise body
        return Download(body, self.fresh_for)


class Heard:
    def __init__(self):
        self.loaded = []
        self.failed = []

    def keys_loaded(self, issuer_id, keys):
        self.loaded.append((issuer_id, len(keys.ignored)))

    def keys_failed(self, issuer_id, why):
        self.failed.append((issuer_id, why))


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def hours():
    return Hours()


@pytest.fixture
def places():
    return Endpoints(id=key_set(jwk("ed")), b=key_set(jwk("rsa")))


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
async def refresher(hours, places, heard):
    made = KeyRefresher(clock=hours.clock, random=lambda: 0.0, sleep=hours.sleep, fetch=places.fetch, observer=heard)
    yield made
    await made.close()


def first(**members):
    return issuer(jwks="https://id.example/keys", **members)


def second(**members):
    return issuer(**{"id": "b", "issuer": OTHER, "jwks": "https://b.example/keys", **members})


def judge(refresher, hours, text=None):
    # A token that never expires: what is under test is the age of the keys.
    text = text or lasting("ed")
    return verify_token(text, refresher.trust, hours.now)


def lasting(key, **claims):
    return token(key, exp=NOW // SECOND + 10 * 86_400, **claims)


async def test_an_issuer_is_loaded_before_apply_returns(refresher, hours, places, heard):
    await refresher.apply([first()])

    assert isinstance(judge(refresher, hours), Claims)
    assert refresher.keys["idp"].keys[0].kid == "ed"
    assert heard.loaded == [("idp", 0)]


async def test_a_set_is_fetched_again_after_its_interval_and_not_before(refresher, hours, places):
    await refresher.apply([first(refresh=5 * MINUTE)])
    await hours.advance(5 * MINUTE - 1)
    assert places.count("id") == 1

    await hours.advance(1)
    assert places.count("id") == 2


async def test_chance_brings_a_fetch_forward_by_up_to_a_tenth(hours, places):
    """Sidecars that started together drift apart; none goes beyond the interval."""
    made = KeyRefresher(clock=hours.clock, random=lambda: 1.0, sleep=hours.sleep, fetch=places.fetch)
    await made.apply([first(refresh=100 * SECOND)])
    await hours.advance(90 * SECOND)

    assert places.count("id") == 2
    await made.close()


class TestFlood:
    async def test_random_kids_cause_one_fetch_a_cooldown(self, refresher, hours, places):
        """J-08, pitfall 7: 2,000 unknown kids in 10 seconds, with good tokens among them."""
        await refresher.apply([first(cooldown=30 * SECOND)])
        for number in range(2000):
            answer = judge(refresher, hours, token(header={"kid": f"k{number}"}))
            assert isinstance(answer, UnknownKey)
            await refresher.want(answer.issuer_id, answer.kid)
            hours.now += 5 * SECOND // 1000
            if number % 20 == 0:
                assert isinstance(judge(refresher, hours), Claims)

        assert places.count("id") == 2
        assert len(refresher._sources["idp"].absent) <= ABSENT_LIMIT

    async def test_the_cooldown_holds_where_the_endpoint_is_down(self, refresher, hours, places):
        """J-08: by time only, so that an empty or unreachable set is not asked for more often."""
        places.put("id", DownloadFailed("refused"))
        await refresher.apply([first(cooldown=30 * SECOND, refresh=5 * MINUTE)])
        before = places.count("id")
        for number in range(100):
            assert not await refresher.want("idp", f"k{number}")

        assert places.count("id") == before + 1

    async def test_callers_that_come_together_share_one_fetch(self, refresher, hours, places):
        await refresher.apply([first()])
        gate = asyncio.Event()
        places.put("id", gate)
        waiting = [asyncio.create_task(refresher.want("idp", f"k{n}", patience=5)) for n in range(50)]
        await settle()
        places.put("id", key_set(jwk("ed"), jwk("rsa")))
        gate.set()

        assert await asyncio.gather(*waiting) == [True] * 50
        assert places.count("id") == 2

    async def test_a_caller_waits_no_longer_than_its_patience_and_the_fetch_goes_on(self, refresher, hours, places):
        await refresher.apply([first()])
        gate = asyncio.Event()
        places.put("id", gate)
        assert not await refresher.want("idp", "rsa", patience=0.001)

        places.put("id", key_set(jwk("ed"), jwk("rsa")))
        gate.set()
        await settle()
        assert isinstance(judge(refresher, hours, lasting("rsa")), Claims)

    async def test_a_kid_that_stays_absent_leaves_the_fetch_to_another(self, refresher, hours, places):
        """A client with tokens of a retired key must not use up what a new key needs."""
        await refresher.apply([first(cooldown=30 * SECOND, refresh=60 * MINUTE)])
        asked = []
        for _ in range(20):
            asked.append(places.count("id"))
            await refresher.want("idp", "retired")
            hours.now += 30 * SECOND
        # One cool-down, then two, four, eight: at 0, 1, 3, 7 and 15 cool-downs.
        assert [n for n, (a, b) in enumerate(zip(asked, [*asked[1:], places.count("id")], strict=True)) if b > a] == [
            0,
            1,
            3,
            7,
            15,
        ]

        places.put("id", key_set(jwk("ed"), jwk("rsa")))
        assert await refresher.want("idp", "rsa")

    async def test_an_issuer_that_is_not_there_is_not_asked(self, refresher):
        assert not await refresher.want("nobody", "k")


class TestRotation:
    async def test_the_first_token_of_a_new_key_is_allowed_at_once(self, refresher, hours, places):
        """J-10: well inside the life of the cached set; the old key goes on until it is withdrawn."""
        await refresher.apply([first(refresh=5 * MINUTE)])
        places.put("id", key_set(jwk("ed"), jwk("rsa")))
        hours.now += 2 * SECOND
        answer = judge(refresher, hours, lasting("rsa"))

        assert isinstance(answer, UnknownKey)
        assert await refresher.want(answer.issuer_id, answer.kid)
        assert isinstance(judge(refresher, hours, lasting("rsa")), Claims)
        assert isinstance(judge(refresher, hours, lasting("ed")), Claims)

    async def test_a_withdrawn_key_is_gone_after_the_interval_at_the_latest(self, refresher, hours, places):
        """J-10, J-23: a year of max-age does not keep it alive."""
        places.fresh_for = 31_536_000
        places.put("id", key_set(jwk("ed"), jwk("rsa")))
        await refresher.apply([first(refresh=5 * MINUTE)])
        places.put("id", key_set(jwk("rsa")))
        await hours.advance(5 * MINUTE)

        assert isinstance(judge(refresher, hours, lasting("ed")), UnknownKey)
        assert isinstance(judge(refresher, hours, lasting("rsa")), Claims)

    @pytest.mark.parametrize("fresh_for", [0, 1, 60, 31_536_000, None])
    async def test_the_rate_of_fetches_is_bounded_whatever_the_header_says(self, refresher, hours, places, fresh_for):
        """J-23: no-store, max-age=0, a minute, a year, nothing."""
        places.fresh_for = fresh_for
        await refresher.apply([first(refresh=2 * MINUTE, cooldown=30 * SECOND)])
        await hours.advance(6 * MINUTE)

        expected = {0: 12, 1: 12, 60: 6, 31_536_000: 3, None: 3}[fresh_for]
        assert places.count("id") == 1 + expected

    async def test_an_unchanged_set_stays_the_same_object(self, refresher, hours, places):
        """So that what is cached per key set survives a refresh."""
        await refresher.apply([first(refresh=MINUTE)])
        keys = refresher.keys["idp"]
        await hours.advance(MINUTE)

        assert refresher.keys["idp"] is keys


class TestFailure:
    @pytest.mark.parametrize("body", [*BAD_BODIES, DownloadFailed("status 500"), TypeError("a bug")], ids=repr)
    async def test_the_last_good_set_is_kept_until_its_bound(self, refresher, hours, places, heard, body):
        """J-09: 500, timeout, HTML with 200, no keys, truncated; 10 minutes past the interval and up to the bound."""
        await refresher.apply([first(refresh=5 * MINUTE, max_stale=60 * MINUTE)])
        places.put("id", body)
        await hours.advance(15 * MINUTE)

        assert isinstance(judge(refresher, hours), Claims)
        assert refresher.ages()["idp"] == 15 * MINUTE
        assert len(heard.failed) > 10
        await hours.advance(45 * MINUTE - 1)
        assert isinstance(judge(refresher, hours), Claims)
        await hours.advance(1)
        assert judge(refresher, hours).reason is Reason.IDENTITY_UNAVAILABLE

    async def test_after_recovery_the_next_fetch_is_used_without_a_restart(self, refresher, hours, places):
        """J-09, J-11: within one pause of the back-off, which never exceeds 30 seconds."""
        places.put("b", DownloadFailed("refused"))
        await refresher.apply([first(), second()])
        await hours.advance(10 * MINUTE)
        places.put("b", key_set(jwk("rsa")))
        await hours.advance(30 * SECOND)

        assert isinstance(judge(refresher, hours, lasting("rsa", iss=OTHER)), Claims)

    async def test_the_pause_after_failures_doubles_and_is_bounded(self, refresher, hours, places):
        places.put("id", DownloadFailed("refused"))
        await refresher.apply([first()])
        moments = []
        for _ in range(240):
            seen = places.count("id")
            await hours.advance(SECOND // 2)
            if places.count("id") > seen:
                moments.append((hours.now - NOW) / SECOND)

        # Half of 1, 2, 4, 8, 16 and then 30 seconds, as chance is 0 here.
        assert moments == [0.5, 1.5, 3.5, 7.5, 15.5, 30.5, 45.5, 60.5, 75.5, 90.5, 105.5]

    async def test_a_dead_issuer_at_start_holds_up_no_other(self, refresher, hours, places):
        """J-11: ready for A; the tokens of B are refused, and never allowed."""
        places.put("b", asyncio.Event())
        await refresher.apply([first(), second()], patience=0.01)

        assert isinstance(judge(refresher, hours), Claims)
        assert judge(refresher, hours, token("rsa", iss=OTHER)).reason is Reason.IDENTITY_UNAVAILABLE
        assert refresher.ages() == {"idp": 0, "b": None}

    async def test_a_clock_set_back_stops_neither_the_fetches_nor_the_wanted_ones(self, refresher, hours, places):
        await refresher.apply([first(refresh=MINUTE)])
        await refresher.want("idp", "rsa")
        hours.now -= DAY
        hours.sleepers = [(at - DAY, woken) for at, woken in hours.sleepers]
        assert places.count("id") == 2

        assert not await refresher.want("idp", "rsa")
        assert places.count("id") == 3
        await hours.advance(2 * MINUTE)
        assert places.count("id") == 5


class TestSnapshotChange:
    async def test_a_removed_issuer_is_dropped_with_its_task(self, refresher, hours, places):
        """F-10: its tokens are refused from the next request and its endpoint is not asked again."""
        await refresher.apply([first(), second()])
        await refresher.apply([first()])
        fetched = places.count("b")
        await hours.advance(60 * MINUTE)

        assert judge(refresher, hours, lasting("rsa", iss=OTHER)).reason is Reason.TOKEN_ISSUER
        assert places.count("b") == fetched
        assert set(refresher.keys) == {"idp"}

    async def test_an_issuer_that_stays_keeps_its_keys_and_is_not_fetched_again(self, refresher, hours, places):
        await refresher.apply([first()])
        await refresher.apply([first(), second()])

        assert places.count("id") == 1
        assert set(refresher.keys) == {"idp", "b"}

    @pytest.mark.parametrize("change", [{"jwks": "https://b.example/keys"}, {"issuer": OTHER}])
    async def test_keys_do_not_follow_an_issuer_to_another_name_or_place(self, refresher, hours, places, change):
        await refresher.apply([first()])
        places.put("b", DownloadFailed("refused"))
        places.put("id", DownloadFailed("refused"))
        await refresher.apply([issuer(**{"jwks": "https://id.example/keys", **change})])

        assert refresher.keys == {}

    async def test_new_settings_hold_at_once_and_keep_the_keys(self, refresher, hours, places):
        await refresher.apply([first(refresh=60 * MINUTE)])
        await refresher.apply([first(refresh=MINUTE, audiences=("other",))])
        await hours.advance(MINUTE)

        assert places.count("id") == 2
        assert judge(refresher, hours).reason is Reason.TOKEN_AUDIENCE

    async def test_nothing_is_left_running_after_close(self, hours, places):
        made = KeyRefresher(clock=hours.clock, random=lambda: 0.5, sleep=hours.sleep, fetch=places.fetch)
        places.put("b", asyncio.Event())
        await made.apply([first(), second()], patience=0.01)
        await made.close()

        assert made.trust == {}
        assert asyncio.all_tasks() == {asyncio.current_task()}
