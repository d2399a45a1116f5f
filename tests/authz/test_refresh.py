"""The background refresher: what it fetches, when, and what survives when it cannot. All on a clock of its own."""

import asyncio

import pytest

from authz.download import DownloadFailed
from authz.refresh import KeyRefresher
from authz.token import Claims, UnknownKey
from model.instant import MINUTE, SECOND
from model.reason import Reason
from tests.authz.refreshing import OTHER, first, judge, lasting, second
from tests.authz.tokens import issuer, jwk, key_set


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
