"""Shadow and quota mode, debits, overrides and replacement, on a fake clock and counters in memory."""

import pytest

from pb.ratelimit_pb2 import RateLimitRequest, RateLimitResponse
from ratelimit.service import RpcError
from tests.ratelimit.asking import OK, OVER, Asked, codes, headers, look, remaining, request, rules

MODES = rules("""
    domain: modes
    descriptors:
      - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
      - {key: hard, rate_limit: {unit: minute, requests_per_unit: 100}}
      - {key: two, rate_limit: {unit: minute, requests_per_unit: 2}}
      - key: service
        value: one
        quota_mode: true
        rate_limit: {unit: minute, requests_per_unit: 1}
        metadata: {service_with_quota: {name: one}}
      - key: service
        value: two
        quota_mode: true
        rate_limit: {unit: minute, requests_per_unit: 2}
        metadata: {service_with_quota: {name: two, weight: 2}}
""")


async def test_a_shadow_rule_counts_and_never_refuses():
    asked = Asked(MODES)
    responses = [await asked.ask("modes", [("shadow", "x")]) for _ in range(4)]
    assert [response.overall_code for response in responses] == [OK] * 4
    assert [codes(response) for response in responses] == [[OK]] * 4
    assert [remaining(response) for response in responses] == [[1], [0], [0], [0]]
    assert asked.service.tally.snapshot()["modes.shadow"]["shadow"] == 2


async def test_a_client_is_never_told_of_a_shadow_limit():
    response = await Asked(MODES).ask("modes", [("shadow", "x")], [("hard", "x")])
    assert headers(response)["ratelimit"] == '"hard";r=99;t=60'


async def test_a_shadow_rule_beside_a_hard_one_leaves_the_verdict_to_it():
    asked = Asked(MODES)
    results = await asked.codes(4, "modes", [("shadow", "x")], [("two", "x")])
    assert results == [OK, OK, OVER, OVER]


async def test_global_shadow_refuses_nothing_and_still_says_what_would_have_been():
    asked = Asked(MODES, all_shadow=True)
    responses = [await asked.ask("modes", [("two", "x")]) for _ in range(3)]
    assert [response.overall_code for response in responses] == [OK] * 3
    assert [codes(response) for response in responses] == [[OK], [OK], [OVER]]
    assert not responses[2].response_headers_to_add
    assert not responses[2].raw_body


async def test_quota_mode_refuses_only_where_every_quota_is_used_up():
    asked = Asked(MODES)
    results = await asked.codes(3, "modes", [("service", "one")], [("service", "two")])
    assert results == [OK, OK, OVER]


async def test_quota_mode_tells_the_proxy_which_quotas_have_room():
    asked = Asked(MODES)
    both = [("service", "one")], [("service", "two")]
    first, second = [(await asked.ask("modes", *both)).dynamic_metadata["metadata"] for _ in range(2)]
    assert first == {"service_with_quota": {"name": "one", "weight": 2}}
    assert second == {"service_with_quota": {"name": "two", "weight": 2}}
    assert "metadata" not in (await asked.ask("modes", *both)).dynamic_metadata


async def test_one_quota_alone_refuses_like_any_limit():
    assert await Asked(MODES).codes(2, "modes", [("service", "one")]) == [OK, OVER]


async def test_quotas_that_refuse_together_take_nothing_from_a_hard_limit():
    asked = Asked(MODES)
    results = await asked.codes(10, "modes", [("hard", "x")], [("service", "one")], [("service", "two")])
    assert results == [OK, OK] + [OVER] * 8
    assert remaining(await look(asked, "modes", ("hard", "x"))) == [98]


async def test_a_hard_limit_refuses_whatever_the_quotas_have():
    asked = Asked(MODES)
    results = await asked.codes(4, "modes", [("two", "x")], [("service", "one")], [("hard", "x")])
    assert results[0] == OK
    assert OVER in results
    assert remaining(await look(asked, "modes", ("hard", "x"))) == [100 - results.count(OK)]


async def test_global_quota_mode_makes_every_limit_a_soft_one():
    asked = Asked(MODES, all_soft=True)
    assert await asked.codes(4, "modes", [("two", "x")], [("hard", "x")]) == [OK] * 4
    assert await asked.codes(1, "modes", [("two", "x")]) == [OVER]


async def debit(asked: Asked, hits: int, *entries: tuple[str, str]) -> RateLimitResponse:
    question = request("modes", entries)
    question.descriptors[0].hits_addend.value = hits
    return await asked(question)


async def test_a_debit_greater_than_what_is_left_of_a_quota_takes_the_rest_so_that_the_next_look_refuses():
    asked = Asked(MODES)
    assert (await look(asked, "modes", ("service", "two"))).overall_code == OK
    assert (await debit(asked, 300, ("service", "two"))).overall_code == OVER
    assert (await look(asked, "modes", ("service", "two"))).overall_code == OVER


async def test_a_debit_greater_than_what_is_left_of_a_hard_limit_counts_nothing_but_where_drain_is_asked_for():
    exact, drained = Asked(MODES), Asked(MODES, drain=True)
    for asked in (exact, drained):
        assert (await debit(asked, 101, ("hard", "x"))).overall_code == OVER
    assert remaining(await look(exact, "modes", ("hard", "x"))) == [100]
    assert (await look(drained, "modes", ("hard", "x"))).overall_code == OVER


# Overrides, replacement


def overridden(count: int, unit: int, *entries: tuple[str, str]) -> RateLimitRequest:
    question = request("modes", entries)
    question.descriptors[0].limit.requests_per_unit = count
    question.descriptors[0].limit.unit = unit
    return question


@pytest.mark.parametrize("unit", range(1, 8))
async def test_a_limit_that_comes_with_the_descriptor_wins_in_every_unit(unit):
    asked = Asked(MODES)
    question = overridden(3, unit, ("two", "x"))
    results = [await asked(question) for _ in range(4)]
    assert [response.overall_code for response in results] == [OK, OK, OK, OVER]
    assert results[0].statuses[0].current_limit.unit == unit


async def test_an_override_is_enforced_where_the_rule_is_a_shadow_and_holds_where_there_is_no_rule():
    asked = Asked(MODES)
    for entry in (("shadow", "x"), ("no such key", "x")):
        question = overridden(1, 2, entry)
        assert [(await asked(question)).overall_code for _ in range(2)] == [OK, OVER]


async def test_an_override_of_zero_refuses():
    assert (await Asked(MODES)(overridden(0, 2, ("hard", "x")))).overall_code == OVER


async def test_an_override_in_a_domain_that_nobody_knows_is_let_through():
    question = overridden(0, 2, ("hard", "x"))
    question.domain = "unknown"
    assert (await Asked(MODES)(question)).overall_code == OK


@pytest.mark.parametrize("unit", [0, 8])
async def test_an_override_without_a_unit_is_an_error_and_not_no_limit(unit):
    with pytest.raises(RpcError, match="no known unit"):
        await Asked(MODES)(overridden(5, unit, ("hard", "x")))


REPLACING = rules("""
    domain: example7
    descriptors:
      - key: key_1
        value: value_1
        descriptors:
          - key: user
            value: bkthomps
            rate_limit: {name: specific_limit, requests_per_unit: 5, unit: second}
      - key: key_2
        value: value_2
        descriptors:
          - key: user
            value: bkthomps
            rate_limit: {replaces: [{name: specific_limit}], requests_per_unit: 10, unit: second}
      - key: vip
        rate_limit: {unlimited: true, replaces: [{name: specific_limit}]}
""")

ONE = [("key_1", "value_1"), ("user", "bkthomps")]
TWO = [("key_2", "value_2"), ("user", "bkthomps")]


async def test_a_replaced_limit_does_not_hold_beside_the_one_that_replaces_it_and_is_not_spent():
    asked = Asked(REPLACING)
    response = await asked.ask("example7", ONE, TWO)
    assert [status.HasField("current_limit") for status in response.statuses] == [False, True]
    assert await asked.codes(10, "example7", ONE, TWO) == [OK] * 9 + [OVER]
    assert await asked.codes(6, "example7", ONE) == [OK] * 5 + [OVER]


async def test_an_unlimited_rule_can_replace_a_limit():
    asked = Asked(REPLACING)
    assert await asked.codes(20, "example7", ONE, [("vip", "x")]) == [OK] * 20
