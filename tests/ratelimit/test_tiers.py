"""Several limits in one request, on a fake clock and counters in memory: what the public reports ask for."""

import json
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from model.instant import MINUTE, SECOND
from tests.ratelimit.asking import OK, OVER, START, Asked, codes, headers, look, remaining, request, rules

SITE = rules("""
    domain: site
    descriptors:
      - {key: site, rate_limit: {unit: minute, requests_per_unit: 100}}
      - {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}
      - {key: banned, rate_limit: {unit: minute, requests_per_unit: 0}}
      - {key: hour, rate_limit: {unit: hour, requests_per_unit: 70}}
      - {key: minute, rate_limit: {unit: minute, requests_per_unit: 60}}
""")

TEN = rules("""
    domain: basic
    descriptors: [{key: ten, rate_limit: {unit: minute, requests_per_unit: 10}}]
""")


async def test_r_03_a_request_that_one_limit_refuses_takes_nothing_from_the_others():
    """R-03: site 100, user 5; one user sends 200, then another one sends 5."""
    asked = Asked(SITE)
    results = await asked.codes(200, "site", [("site", "all")], [("user", "u")])
    assert results == [OK] * 5 + [OVER] * 195
    assert remaining(await look(asked, "site", ("site", "all"))) == [95]
    assert await asked.codes(5, "site", [("site", "all")], [("user", "v")]) == [OK] * 5


async def test_r_03_a_refused_request_shows_what_is_left_of_the_limits_that_had_room():
    asked = Asked(SITE)
    response = await asked.ask("site", [("site", "all")], [("user", "u")], hits=6)
    assert response.overall_code == OVER
    assert codes(response) == [OK, OVER]
    assert remaining(response) == [100, 0]


async def test_r_03_a_limit_of_zero_takes_nothing_from_the_others():
    asked = Asked(SITE)
    assert await asked.codes(20, "site", [("user", "u")], [("banned", "u")]) == [OVER] * 20
    assert remaining(await look(asked, "site", ("user", "u"))) == [5]


async def test_r_03_a_look_that_refuses_takes_nothing_from_the_others():
    asked = Asked(SITE)
    await asked.codes(5, "site", [("user", "u")])
    question = request("site", [("site", "all")], [("user", "u")])
    question.descriptors[1].hits_addend.value = 0
    response = await asked(question)
    assert (response.overall_code, codes(response), remaining(response)) == (OVER, [OK, OVER], [100, 0])
    assert remaining(await look(asked, "site", ("site", "all"))) == [100]


async def test_a_look_beside_a_charge_that_both_pass_charges_once():
    asked = Asked(SITE)
    question = request("site", [("site", "all")], [("user", "u")])
    question.descriptors[1].hits_addend.value = 0
    assert remaining(await asked(question)) == [99, 5]
    assert remaining(await look(asked, "site", ("site", "all"))) == [99]


async def test_r_08_a_refusal_describes_the_limit_that_refused():
    """R-08: minute tier has room, hour tier is used up for another 50 minutes; all places show the same numbers."""
    asked = Asked(SITE, families=("draft", "x-ratelimit", "ratelimit-legacy"))
    await asked.ask("site", [("hour", "u")], hits=70)
    asked.wait(600)
    response = await asked.ask("site", [("minute", "u")], [("hour", "u")], hits=4)
    told = headers(response)
    assert told["retry-after"] == told["x-ratelimit-reset"] == told["ratelimit-reset"] == "3000"
    assert told["x-ratelimit-remaining"] == told["ratelimit-remaining"] == "0"
    assert told["ratelimit"] == '"minute";r=60;t=0, "hour";r=0;t=3000'
    assert response.statuses[1].duration_until_reset.seconds == 3000
    document = json.loads(response.raw_body)
    assert (document["limit"], document["remaining"], document["reset"]) == ("hour", 0, 3000)
    assert (document["violated-policies"], document["scope"]) == (["hour"], ["hour"])
    assert (document["quota"], document["window"], document["retry_after"]) == (70, 3600, 3000)


async def test_r_08_of_two_limits_that_refuse_the_longer_wait_is_told():
    asked = Asked(SITE)
    await asked.ask("site", [("hour", "u")], hits=70)
    await asked.ask("site", [("minute", "u")], hits=60)
    response = await asked.ask("site", [("minute", "u")], [("hour", "u")])
    document = json.loads(response.raw_body)
    assert headers(response)["retry-after"] == "3600"
    assert (document["limit"], document["violated-policies"]) == ("hour", ["minute", "hour"])


async def test_r_11_no_window_of_a_minute_lets_more_than_the_limit_through():
    """R-11: ten calls just before a full minute and ten just after it."""
    asked = Asked(TEN)
    asked.now = START - START % MINUTE + MINUTE - SECOND // 10
    assert await asked.codes(10, "basic", [("ten", "x")]) == [OK] * 10
    asked.wait(0.2)
    response = await asked.ask("basic", [("ten", "x")])
    assert response.overall_code == OVER
    assert headers(response)["retry-after"] == "60"


@settings(max_examples=30)
@given(st.lists(st.integers(0, 20 * SECOND), min_size=15, max_size=60))
async def test_r_11_whatever_the_traffic_ten_a_minute_are_never_eleven(gaps):
    asked = Asked(TEN)
    passed = []
    for gap in gaps:
        asked.now += gap
        if (await asked.ask("basic", [("ten", "x")])).overall_code == OK:
            passed.append(asked.now)
    assert all(later - earlier >= MINUTE for earlier, later in zip(passed, passed[10:], strict=False))
    assert all(earlier <= later for earlier, later in pairwise(passed))


async def test_r_15_refused_calls_do_not_put_off_the_next_window():
    asked = Asked(TEN)
    passed = 0
    for _ in range(1000):
        passed += (await asked.ask("basic", [("ten", "x")])).overall_code == OK
        asked.wait(0.3)
    # 300 s are five whole windows of ten; a grain of the window (1/64) may be lost at each.
    assert 48 <= passed <= 50


@settings(max_examples=40)
@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
async def test_r_06_different_descriptors_never_spend_from_one_counter(one, two, three, four):
    tree = rules("""
        domain: edge
        descriptors:
          - key: user
            descriptors: [{key: path, rate_limit: {unit: minute, requests_per_unit: 1}}]
    """)
    asked = Asked(tree)
    await asked.ask("edge", [("user", one), ("path", two)])
    response = await asked.ask("edge", [("user", three), ("path", four)])
    assert response.overall_code == (OVER if (one, two) == (three, four) else OK)


async def test_r_07_what_is_told_to_client_and_metric_holds_no_value_of_the_request():
    asked = Asked(SITE)
    secret = "Bearer-s3cr3t"
    responses = [await asked.ask("site", [("user", secret)]) for _ in range(6)]
    assert secret not in str([headers(response) for response in responses]) + str(responses[-1].raw_body)
    assert secret not in str(asked.service.tally.snapshot())
