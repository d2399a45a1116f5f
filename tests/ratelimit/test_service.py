"""ShouldRateLimit from bytes to bytes, on a fake clock and counters in memory."""

import json

import pytest

from pb.ratelimit_pb2 import RateLimitResponse
from ratelimit.limiter import MemoryLimiter
from ratelimit.rules import Rules
from ratelimit.service import UNAVAILABLE, UNKNOWN, RpcError
from tests.ratelimit.asking import OK, OVER, START, Asked, codes, headers, look, remaining, request, rules

BASIC = rules("""
    domain: basic
    descriptors:
      - key: key1
        rate_limit: {unit: second, requests_per_unit: 50}
      - key: ten
        rate_limit: {unit: minute, requests_per_unit: 10}
      - key: one_per_minute
        rate_limit: {unit: minute, requests_per_unit: 1}
      - key: block
        rate_limit: {unit: second, requests_per_unit: 0}
      - key: free
        rate_limit: {unlimited: true}
      - key: week
        rate_limit: {name: weekly, unit: week, requests_per_unit: 7}
      - key: listed
        value: plain
""")

# The status of each descriptor


async def test_a_status_tells_the_limit_what_is_left_of_it_and_when_it_is_whole_again():
    response = await Asked(BASIC).ask("basic", [("key1", "foo")])
    (status,) = response.statuses
    assert (response.overall_code, status.code) == (OK, OK)
    limit = status.current_limit
    assert (limit.requests_per_unit, limit.unit, limit.name) == (50, RateLimitResponse.RateLimit.SECOND, "")
    assert (status.limit_remaining, status.duration_until_reset.seconds) == (49, 1)


async def test_the_limit_of_a_named_rule_carries_its_name_and_unit():
    (status,) = (await Asked(BASIC).ask("basic", [("week", "x")])).statuses
    assert (status.current_limit.name, status.current_limit.unit) == ("weekly", RateLimitResponse.RateLimit.WEEK)
    assert status.duration_until_reset.seconds == 7 * 86_400


async def test_the_call_after_the_last_one_is_over_the_limit_with_nothing_left():
    asked = Asked(BASIC)
    assert await asked.codes(10, "basic", [("ten", "x")]) == [OK] * 10
    asked.wait(20)
    response = await asked.ask("basic", [("ten", "x")])
    assert (response.overall_code, codes(response), remaining(response)) == (OVER, [OVER], [0])
    assert response.statuses[0].duration_until_reset.seconds == 40


async def test_a_refusal_holds_until_the_promised_instant_and_not_a_moment_longer():
    asked = Asked(BASIC)
    await asked.ask("basic", [("one_per_minute", "x")])
    asked.wait(59.999)
    assert await asked.codes(1, "basic", [("one_per_minute", "x")]) == [OVER]
    asked.wait(0.001)
    assert await asked.codes(1, "basic", [("one_per_minute", "x")]) == [OK]


async def test_statuses_stand_in_the_order_of_the_descriptors():
    response = await Asked(BASIC).ask("basic", [("ten", "x")], [("none", "x")], [("free", "x")], [("key1", "x")])
    assert [status.HasField("current_limit") for status in response.statuses] == [True, False, False, True]
    assert remaining(response) == [9, 0, 2**32 - 1, 49]
    assert codes(response) == [OK] * 4


async def test_an_unlimited_rule_has_all_that_the_wire_can_say_left_and_asks_no_store():
    asked = Asked(BASIC)
    response = await asked.ask("basic", [("free", "x")])
    assert (remaining(response), codes(response)) == ([2**32 - 1], [OK])
    assert asked.limiter.spent == []


async def test_a_limit_of_zero_refuses_everybody_and_asks_no_store():
    asked = Asked(BASIC)
    response = await asked.ask("basic", [("block", "x")])
    assert (response.overall_code, remaining(response)) == (OVER, [0])
    assert response.statuses[0].current_limit.requests_per_unit == 0
    assert headers(response)["retry-after"] == "1"
    assert asked.limiter.spent == []


#


@pytest.mark.parametrize(
    ("asked_for", "message"),
    [
        (request(""), "rate limit domain must not be empty"),
        (request("", [("key1", "x")]), "rate limit domain must not be empty"),
        (request("basic"), "rate limit descriptor list must not be empty"),
    ],
)
async def test_r_14_no_domain_and_no_descriptor_are_errors_as_of_the_reference(asked_for, message):
    asked = Asked(BASIC)
    with pytest.raises(RpcError) as raised:
        await asked(asked_for)
    assert (raised.value.code, raised.value.message) == (UNKNOWN, message)
    assert asked.limiter.spent == []
    assert asked.service.errors == {"invalid": 1, "unavailable": 0}


async def test_r_14_what_no_rule_fits_is_let_through_with_a_status_each():
    asked = Asked(BASIC)
    descriptors = [[], [("", "")], [("unknown", "x")], [("listed", "plain")], [("key1", "x"), ("deeper", "y")]]
    response = await asked.ask("basic", *descriptors)
    assert response.overall_code == OK
    assert codes(response) == [OK] * len(descriptors)
    assert not any(status.HasField("current_limit") for status in response.statuses)
    assert (await asked.ask("unknown", [("key1", "x")])).overall_code == OK
    assert (await Asked(Rules()).ask("basic", [("key1", "x")])).overall_code == OK


async def test_r_14_a_thousand_descriptors_have_a_thousand_statuses():
    asked = Asked(BASIC)
    response = await asked.ask("basic", *[[("key1", str(number))] for number in range(1000)])
    assert remaining(response) == [49] * 1000
    assert len(asked.limiter.spent) == 1


async def test_bytes_that_are_no_request_are_an_error_and_not_a_pass():
    asked = Asked(BASIC)
    with pytest.raises(RpcError, match="cannot be parsed"):
        await asked.service.should_rate_limit(b"\xff\xff\xff")


async def test_limits_that_cannot_be_counted_are_an_error_so_that_the_proxy_decides():
    asked = Asked(BASIC)
    asked.limiter.away = True
    with pytest.raises(RpcError) as raised:
        await asked.ask("basic", [("ten", "x")])
    assert raised.value.code == UNAVAILABLE
    assert asked.service.errors == {"invalid": 0, "unavailable": 1}
    assert (await asked.ask("basic", [("none", "x")])).overall_code == OK


# Hits


@pytest.mark.parametrize(("hits", "left"), [(0, 9), (1, 9), (5, 5), (10, 0)])
async def test_r_01_hits_of_the_request_count_and_zero_means_one(hits, left):
    assert remaining(await Asked(BASIC).ask("basic", [("ten", "x")], hits=hits)) == [left]


async def test_r_01_a_huge_number_of_hits_is_refused_and_leaves_the_limit_as_it_was():
    asked = Asked(BASIC)
    response = await asked.ask("basic", [("ten", "x")], hits=4_294_967_295)
    assert (response.overall_code, remaining(response)) == (OVER, [0])
    assert int(headers(response)["retry-after"]) <= 60
    assert await asked.codes(11, "basic", [("ten", "x")]) == [OK] * 10 + [OVER]


async def test_r_01_the_largest_number_that_the_wire_can_carry_is_refused_and_harms_nothing():
    asked = Asked(BASIC)
    question = request("basic", [("ten", "x")])
    question.descriptors[0].hits_addend.value = 2**64 - 1
    assert (await asked(question)).overall_code == OVER
    assert remaining(await asked.ask("basic", [("ten", "x")])) == [9]


async def test_r_01_zero_hits_of_a_descriptor_look_and_count_nothing():
    asked = Asked(BASIC)
    for _ in range(20):
        assert remaining(await look(asked, "basic", ("ten", "x"))) == [10]
    assert remaining(await asked.ask("basic", [("ten", "x")])) == [9]
    assert remaining(await look(asked, "basic", ("ten", "x"))) == [9]


async def test_r_01_a_look_at_a_limit_that_is_used_up_is_over_it():
    asked = Asked(BASIC)
    await asked.codes(10, "basic", [("ten", "x")])
    response = await look(asked, "basic", ("ten", "x"))
    assert (response.overall_code, remaining(response)) == (OVER, [0])
    assert headers(response)["retry-after"] == "60"


async def test_hits_of_a_descriptor_go_before_those_of_the_request():
    asked = Asked(BASIC)
    question = request("basic", [("ten", "a")], [("ten", "b")], hits=2)
    question.descriptors[0].hits_addend.value = 7
    assert remaining(await asked(question)) == [3, 8]


async def give_back(asked: Asked, hits: int, *entries: tuple[str, str]) -> RateLimitResponse:
    question = request("basic", entries)
    question.descriptors[0].hits_addend.value = hits
    question.descriptors[0].is_negative_hits = True
    return await asked(question)


async def test_negative_hits_give_back_what_was_spent():
    asked = Asked(BASIC)
    await asked.ask("basic", [("ten", "x")], hits=10)
    response = await give_back(asked, 3, ("ten", "x"))
    assert (response.overall_code, remaining(response)) == (OK, [3])
    assert await asked.codes(4, "basic", [("ten", "x")]) == [OK, OK, OK, OVER]


async def test_negative_hits_never_make_a_limit_more_than_whole():
    asked = Asked(BASIC)
    await asked.ask("basic", [("ten", "x")], hits=2)
    assert remaining(await give_back(asked, 500, ("ten", "x"))) == [10]
    assert remaining(await give_back(asked, 500, ("ten", "new"))) == [10]
    assert await asked.codes(11, "basic", [("ten", "x")]) == [OK] * 10 + [OVER]


async def test_negative_hits_refuse_nobody_and_are_no_hits_of_the_rule():
    asked = Asked(BASIC)
    question = request("basic", [("ten", "x")], [("one_per_minute", "y")], hits=1)
    question.descriptors[0].is_negative_hits = True
    assert [(await asked(question)).overall_code for _ in range(2)] == [OK, OVER]
    assert asked.service.tally.snapshot()["basic.ten"]["total"] == 0
    assert (await give_back(asked, 2, ("none", "x"))).overall_code == OK
    assert (await give_back(asked, 2, ("free", "x"))).overall_code == OK


async def test_one_descriptor_that_comes_twice_is_charged_twice():
    asked = Asked(BASIC)
    await asked.ask("basic", [("ten", "x")], [("ten", "x")])
    assert remaining(await look(asked, "basic", ("ten", "x"))) == [8]


# What else the answer brings


async def test_an_answer_that_passes_carries_fields_and_no_body():
    response = await Asked(BASIC).ask("basic", [("ten", "x")])
    assert headers(response) == {"ratelimit-policy": '"ten";q=10;w=60', "ratelimit": '"ten";r=9;t=60'}
    assert not response.raw_body
    assert not response.HasField("dynamic_metadata")


async def test_a_refusal_is_a_problem_document_and_can_do_without():
    question = request("basic", [("block", "x")])
    response = await Asked(BASIC)(question)
    assert headers(response)["content-type"] == "application/problem+json"
    document = json.loads(response.raw_body)
    assert document["type"] == "https://iana.org/assignments/http-problem-types#quota-exceeded"
    assert (document["status"], document["violated-policies"]) == (429, ["block"])
    bare = await Asked(BASIC, problems=False, families=())(question)
    assert headers(bare) == {"retry-after": "1"}
    assert not bare.raw_body


async def test_metadata_describes_the_question_where_that_is_asked_for():
    question = request("basic", [("ten", "x"), ("b", "")], hits=3)
    question.descriptors[0].hits_addend.value = 2
    question.descriptors[0].limit.requests_per_unit = 9
    question.descriptors[0].limit.unit = 2
    told = (await Asked(BASIC, describe=True)(question)).dynamic_metadata
    assert told == {
        "domain": "basic",
        "descriptors": [{"entries": ["ten=x", "b="], "limit": "requests_per_unit:9 unit:MINUTE", "hitsAddend": 2}],
        "hitsAddend": 3,
    }


# The life of the service


async def test_rules_are_swapped_as_one_attribute_and_counters_stay():
    asked = Asked(BASIC)
    await asked.codes(10, "basic", [("ten", "x")])
    asked.service.rules = rules("""
        domain: basic
        descriptors: [{key: ten, rate_limit: {unit: minute, requests_per_unit: 12}}]
    """)
    assert await asked.codes(3, "basic", [("ten", "x")]) == [OK, OK, OVER]


async def test_before_there_are_rules_no_question_is_answered():
    """To know no rule would be to let everything pass, and Envoy's failure_mode_deny would have no say in it."""
    asked = Asked(None)
    with pytest.raises(RpcError) as refused:
        await asked.ask("basic", [("ten", "x")])
    assert (refused.value.code, asked.service.errors["unavailable"]) == (UNAVAILABLE, 1)
    asked.service.rules = BASIC
    assert (await asked.ask("basic", [("ten", "x")])).overall_code == OK


async def test_each_answer_is_recorded_with_its_question_and_its_time():
    asked = Asked(BASIC)
    await asked.ask("basic", [("ten", "x")])
    ((question, answer, received),) = asked.answers
    assert (question.domain, answer.refused, received) == ("basic", False, START)


async def test_counts_of_rules_go_on_over_other_rules_and_another_store():
    asked = Asked(BASIC)
    assert await asked.codes(2, "basic", [("ten", "x")]) == [OK, OK]
    asked.service.rules, asked.service.limiter = Rules(BASIC.domains), MemoryLimiter()
    assert await asked.codes(2, "basic", [("ten", "x")]) == [OK, OK]
    assert asked.service.tally.snapshot()["basic.ten"]["total"] == 4
