"""Keys while their endpoint fails or is asked too often: what is known serves in its bound, strangers fetch nothing."""

import asyncio

import pytest

from authz.download import DownloadFailed
from authz.refresh import ABSENT_LIMIT
from authz.token import Claims, UnknownKey
from model.instant import DAY, MINUTE, SECOND
from model.reason import Reason
from tests.authz.refreshing import OTHER, first, judge, lasting, second, settle
from tests.authz.tokens import NOW, jwk, key_set, token

BAD_BODIES = [b"<html>down for maintenance</html>", b'{"keys":[]}', b'{"keys":[{"kty":"RSA"', b"", b"null"]


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
