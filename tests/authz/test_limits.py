"""Which quotas a request meets, and what a refusal says."""

import dataclasses
import json

from authz.wire import write_verdict
from model.instant import DAY, HOUR, MINUTE, SECOND
from model.place import METADATA, read_places
from model.quota import LimiterUnavailable, Outcome, Quota
from model.reason import Reason
from model.snapshot import Dimension, Kind, Limit, Override, Requirement
from model.verdict import Allow
from pb import ext_authz_pb2 as pb
from tests.authz.build import (
    NOW,
    QUOTA,
    CountingLimiter,
    consumer,
    judge,
    plane,
    request,
    resident,
    route,
    snapshot,
    tiers,
    token,
)

SITE = Limit(Quota("site", count=1000, period=MINUTE, burst=100), (Dimension.ROUTE,))
USER = Limit(Quota("user", count=5, period=HOUR, burst=5), (Dimension.SUBJECT,))


def house_of(*limits, **changes):
    return resident(snapshot(routes=(route(limits=limits),), **changes))


class ScriptedLimiter(CountingLimiter):
    """Answers by quota name: (allowed, remaining, seconds to wait, seconds to reset)."""

    def __init__(self, **script):
        super().__init__()
        self.script = script

    def _take(self, charges):
        self.spends.append(tuple(charges))
        rows = [self.script.get(charge.quota.name, (True, 9, 0, 60)) for charge in charges]
        return [Outcome(allowed, left, wait * SECOND, reset * SECOND) for allowed, left, wait, reset in rows]


def test_all_quotas_of_a_request_are_spent_in_one_step():
    """Tier and route limits go to the limiter together, so that it can take all or none."""
    limiter = CountingLimiter()
    judge(house=house_of(SITE, USER), limiter=limiter)

    assert [[charge.quota.name for charge in spend] for spend in limiter.spends] == [["requests", "site", "user"]]


def test_refused_request_takes_nothing_from_the_other_tiers():
    """One abusive user does not eat the quota of the whole site (bug report R-03)."""
    house, limiter = house_of(SITE, USER), CountingLimiter()
    abusive = [judge(request(bearer=token(jti=f"u-{n}")), house, limiter) for n in range(200)]
    served = [judge(request(bearer=token(sub="user-2", jti=f"v-{n}")), house, limiter) for n in range(5)]

    assert sum(isinstance(verdict, Allow) for verdict in abusive) == 5
    assert all(isinstance(verdict, Allow) for verdict in served)
    assert sum(used for key, used in limiter.used.items() if "site" in key) == 10


def test_refusal_describes_the_limit_that_refused():
    """The hour is used up and the minute is not: every figure is the hour's (bug report R-08)."""
    limiter = ScriptedLimiter(user=(False, 0, 3000, 3000), requests=(True, 56, 0, 10))
    verdict = judge(house=house_of(USER), limiter=limiter)

    assert verdict.reason is Reason.QUOTA_EXCEEDED
    assert verdict.retry_after == 3000
    assert dict(verdict.answer_headers)["ratelimit"] == '"user";r=0;t=3000'
    assert dict(verdict.answer_headers)["x-ratelimit-remaining"] == "0"
    assert verdict.extensions["violated-policies"] == ["user"]
    assert (verdict.extensions["limit"], verdict.extensions["scope"]) == ("user", ["subject"])
    assert (verdict.extensions["remaining"], verdict.extensions["reset"], verdict.extensions["quota"]) == (0, 3000, 5)


def test_of_several_refusing_limits_the_longest_wait_counts():
    """A client that waits for the shorter one would only be refused again."""
    limiter = ScriptedLimiter(user=(False, 0, 3000, 3000), requests=(False, 0, 2, 10))
    verdict = judge(house=house_of(USER), limiter=limiter)

    assert verdict.retry_after == 3000
    assert verdict.extensions["limit"] == "user"
    assert verdict.extensions["violated-policies"] == ["requests", "user"]


def test_wait_is_rounded_up_to_a_whole_second():
    """Never 0, never too early (RFC 9110 section 10.2.3)."""

    class Short(CountingLimiter):
        def _take(self, charges):
            return [Outcome(False, 0, 1, 1) for _ in charges]

    assert judge(limiter=Short()).retry_after == 1


def test_trial_limit_counts_and_never_refuses_nor_shows():
    """A limit on trial is spent beside the others; the client learns nothing of it."""
    trial = Limit(dataclasses.replace(QUOTA, name="trial", enforced=False), (Dimension.CLIENT,))
    limiter = ScriptedLimiter(trial=(False, 0, 60, 60))
    verdict = judge(house=house_of(trial), limiter=limiter)

    assert isinstance(verdict, Allow)
    assert [charge.quota.name for charge in limiter.spends[0]] == ["requests", "trial"]
    assert "trial" not in json.dumps(verdict.answer_headers)


def test_places_among_streams_have_a_reason_of_their_own():
    """A concurrency limit is not a rate."""
    streams = Limit(dataclasses.replace(QUOTA, name="streams", concurrent=True), (Dimension.CLIENT,))
    verdict = judge(house=house_of(streams), limiter=ScriptedLimiter(streams=(False, 0, 1, 1)))

    assert verdict.reason is Reason.STREAMS_EXCEEDED


def test_each_request_takes_a_place_of_its_own_and_tells_the_proxy_which():
    """Also where token and request id are the same: a client may choose its id, and would share one place."""
    streams = Limit(dataclasses.replace(QUOTA, name="streams", burst=QUOTA.count, concurrent=True), (Dimension.CLIENT,))
    house, limiter = house_of(streams), CountingLimiter()
    bearer = token()
    verdicts = [judge(request(bearer=bearer, received=NOW + tick), house, limiter) for tick in range(2)]

    holders = [charge.holder for spend in limiter.spends for charge in spend if charge.quota.concurrent]
    assert len(set(holders)) == 2
    assert [[place.holder for place in verdict.places] for verdict in verdicts] == [[holder] for holder in holders]
    answers = [pb.CheckResponse.FromString(write_verdict(verdict, request())) for verdict in verdicts]
    assert [read_places(answer.dynamic_metadata[METADATA]) for answer in answers] == [v.places for v in verdicts]


def test_a_request_that_meets_no_limit_of_places_holds_none():
    verdict = judge(house=house_of(SITE))
    assert verdict.places == ()
    assert not pb.CheckResponse.FromString(write_verdict(verdict, request())).HasField("dynamic_metadata")


def test_override_stands_in_for_its_quota_while_it_holds():
    """A dated override changes the numbers of one consumer, from its first instant until its last."""
    campaign = Override(dataclasses.replace(QUOTA, count=6000), since=NOW, until=NOW + DAY)
    house = resident(snapshot(consumers=(consumer(overrides=(campaign,)),)))

    def count(moment):
        limiter = CountingLimiter()
        bearer = token(exp=moment // SECOND + 60, iat=moment // SECOND - 9)
        assert isinstance(judge(request(bearer=bearer, received=moment), house, limiter), Allow)
        return limiter.spends[0][0].quota.count

    assert (count(NOW - SECOND), count(NOW), count(NOW + DAY - SECOND)) == (600, 6000, 6000)
    other = resident(snapshot(consumers=(consumer(overrides=(dataclasses.replace(campaign, until=NOW),)),)))
    limiter = CountingLimiter()
    judge(house=other, limiter=limiter)
    assert limiter.spends[0][0].quota.count == 600


def test_override_of_another_quota_changes_nothing():
    """The name decides."""
    other = Override(dataclasses.replace(QUOTA, name="other", count=1))
    limiter = CountingLimiter()
    judge(house=resident(snapshot(consumers=(consumer(overrides=(other,)),))), limiter=limiter)

    assert limiter.spends[0][0].quota is QUOTA


def test_later_override_wins_over_an_earlier_one():
    """The document is read from top to bottom."""
    both = tuple(Override(dataclasses.replace(QUOTA, count=count)) for count in (1, 2))
    limiter = CountingLimiter()
    judge(house=resident(snapshot(consumers=(consumer(overrides=both),))), limiter=limiter)

    assert limiter.spends[0][0].quota.count == 2


def test_route_can_leave_the_limits_of_the_tier_out():
    """A route may have limits of its own only, or none."""
    limiter = CountingLimiter()
    verdict = judge(house=resident(snapshot(routes=(route(tier_limits=False),))), limiter=limiter)

    assert isinstance(verdict, Allow)
    assert limiter.spends == []
    assert verdict.answer_headers == ()


def test_cost_of_a_request_is_the_limits():
    """A dear request spends more."""
    dear = dataclasses.replace(SITE, cost=7)
    limiter = CountingLimiter()
    judge(house=house_of(dear), limiter=limiter)

    assert limiter.spends[0][1].cost == 7


def flood_house():
    flood = Limit(Quota("flood", count=60, period=MINUTE, burst=2), (Dimension.CLIENT,))
    return resident(snapshot(planes=(plane(flood=flood),)))


def test_flood_from_one_address_is_refused_before_anything_is_verified():
    """What is refused costs no signature, and other addresses are unharmed."""
    house, limiter = flood_house(), CountingLimiter()
    verdicts = [judge(request(bearer="not.a.token"), house, limiter).reason for _ in range(4)]
    other = judge(request(address="198.51.100.9"), house, limiter)

    assert verdicts == [Reason.TOKEN_MALFORMED] * 2 + [Reason.ADDRESS_FLOOD] * 2
    assert isinstance(other, Allow)


def test_flood_is_counted_by_the_real_peer_whatever_the_client_forwards():
    """X-Forwarded-For neither changes the bucket nor harms the address that it names (bug report H-13)."""
    house, limiter = flood_house(), CountingLimiter()
    forged = ["1.2.3.4", "198.51.100.9", "1.2.3.4:80, 5.6.7.8", "fe80::1%eth0", "x" * 500]
    for value in forged:
        judge(request(bearer=None, headers={"x-forwarded-for": value}), house, limiter)

    assert {charge.key for spend in limiter.spends for charge in spend} == {
        ("plane", "partner", "flood", "address", "192.0.2.7")
    }
    assert isinstance(judge(request(address="198.51.100.9"), house, limiter), Allow)


def test_behind_trusted_proxies_the_address_is_the_one_that_envoy_tells():
    """The peer is the last proxy, the same for everybody. On any other plane the header is a client's own word."""
    counted = []
    for header in ("x-envoy-external-address", ""):
        flood = Limit(Quota("flood", count=60, period=MINUTE, burst=0), (Dimension.ADDRESS,))
        house = resident(snapshot(planes=(plane(flood=flood, address_header=header),)))
        limiter = CountingLimiter()
        for told in ({"x-envoy-external-address": "198.51.100.9"}, {}):
            judge(request(headers=told), house, limiter)
        counted.append({charge.key[-1] for spend in limiter.spends for charge in spend if "flood" in charge.key})

    assert counted == [{"198.51.100.9", "192.0.2.7"}, {"192.0.2.7"}]


def test_flood_limit_on_trial_refuses_nobody():
    """It can be watched before it is meant."""
    flood = Limit(Quota("flood", count=60, period=MINUTE, burst=0, enforced=False), (Dimension.ADDRESS,))
    house = resident(snapshot(planes=(plane(flood=flood),)))

    assert isinstance(judge(house=house), Allow)


def test_away_limiter_is_a_503_and_never_an_open_door():
    """No honest answer can be had: refused, and the reason says what is away."""
    limiter = CountingLimiter(resident=False, away=LimiterUnavailable())

    assert judge(limiter=limiter).reason is Reason.LIMITER_UNAVAILABLE


def test_anonymous_callers_are_counted_by_address():
    """60 a minute for each source address, not for all strangers together."""
    house = resident(
        snapshot(planes=(plane(credentials=(Kind.NONE,)),), routes=(route(requirement=Requirement()),), tiers=tiers())
    )
    limiter = CountingLimiter()
    for address in ("192.0.2.1", "192.0.2.1", "192.0.2.2"):
        judge(request(bearer=None, address=address), house, limiter)

    assert len(limiter.used) == 2
