"""Explaining a request: which rules and limits it would meet, and what is left, without counting."""

import json

import pytest

from ratelimit.explain import explain_question
from ratelimit.question import QuestionInvalid
from ratelimit.wire import read_question
from tests.ratelimit.asking import Asked, request, rules

TREE = rules("""
    domain: d
    descriptors:
      - key: user
        rate_limit: {name: per user, unit: minute, requests_per_unit: 3}
      - key: free
        rate_limit: {unlimited: true}
      - key: vip
        rate_limit: {unit: minute, requests_per_unit: 9, replaces: [{name: per user}]}
      - key: quiet
        shadow_mode: true
        rate_limit: {unit: hour, requests_per_unit: 1}
      - key: soft
        quota_mode: true
        rate_limit: {unit: hour, requests_per_unit: 1}
      - key: banned
        rate_limit: {unit: day, requests_per_unit: 0}
      - key: parent
        value: v
        descriptors: [{key: child, value: c}]
""")


async def explain(asked: Asked, *descriptors, **options):
    question = read_question(request("d", *descriptors).SerializeToString())
    explained = await explain_question(TREE, question, asked.limiter, asked.now, **options)
    json.dumps(explained)
    return explained


async def test_a_limit_is_shown_with_its_rule_its_place_and_what_is_left():
    asked = Asked(TREE)
    await asked.ask("d", [("user", "u")])
    explained = await explain(asked, [("user", "u")])
    assert explained == {
        "domain": "d",
        "would": "pass",
        "descriptors": [
            {
                "entries": [{"key": "user", "value": "u"}],
                "rule": "d.user",
                "source": "rules.yaml:4",
                "metric": "d.user",
                "modes": [],
                "state": "limited",
                "because": "the rule fits the descriptor",
                "limit": {"name": "per user", "requests": 3, "unit": "minute", "algorithm": "window"},
                "hits": 1,
                "remaining": 2,
                "reset_seconds": 60,
                "room": True,
                "refuses": False,
            }
        ],
    }


async def test_explaining_counts_nothing():
    asked = Asked(TREE)
    for _ in range(10):
        assert (await explain(asked, [("user", "u")]))["descriptors"][0]["remaining"] == 3
    assert asked.limiter.spent == []


async def test_a_request_that_would_be_refused_is_said_to_be_and_why():
    asked = Asked(TREE)
    await asked.codes(3, "d", [("user", "u")])
    explained = await explain(asked, [("user", "u")], [("user", "v")])
    assert explained["would"] == "refuse"
    assert [(each["room"], each["refuses"]) for each in explained["descriptors"]] == [(False, True), (True, False)]


async def test_unlimited_replaced_and_zero_limits_say_so():
    explained = await explain(Asked(TREE), [("free", "x")], [("user", "u")], [("vip", "u")], [("banned", "x")])
    states = [each["state"] for each in explained["descriptors"]]
    assert states == ["unlimited", "replaced", "limited", "limited"]
    assert explained["descriptors"][1]["because"] == "the rule d.vip replaces it in this request"
    assert explained["descriptors"][3]["remaining"] == 0
    assert explained["would"] == "refuse"


async def test_shadow_and_quota_rules_name_their_mode_and_a_shadow_never_refuses():
    asked = Asked(TREE)
    await asked.ask("d", [("quiet", "x")])
    explained = await explain(asked, [("quiet", "x")], [("soft", "x")])
    assert [each["modes"] for each in explained["descriptors"]] == [["shadow"], ["quota"]]
    assert [(each["room"], each["refuses"]) for each in explained["descriptors"]] == [(False, False), (True, False)]
    assert explained["would"] == "pass"


@pytest.mark.parametrize(
    ("entries", "because"),
    [
        ([("nobody", "x")], "nothing below d fits the entry 'nobody_x'"),
        ([("parent", "v"), ("other", "x")], "nothing below d.parent_v fits the entry 'other_x'"),
        ([("user", "u"), ("more", "")], "nothing below d.user fits the entry 'more'"),
        ([("parent", "v")], "there is no limit at d.parent_v itself, only below it"),
        ([("parent", "v"), ("child", "c")], "there is no limit at d.parent_v.child_c"),
        ([], "the descriptor has no entries"),
    ],
)
async def test_a_descriptor_without_a_rule_is_told_what_stood_in_the_way(entries, because):
    (explained,) = (await explain(Asked(TREE), entries))["descriptors"]
    assert (explained["state"], explained["because"]) == ("none", because)


async def test_an_unknown_domain_is_named():
    asked = Asked(TREE)
    question = read_question(request("other", [("user", "u")]).SerializeToString())
    explained = await explain_question(TREE, question, asked.limiter, asked.now)
    assert explained["descriptors"][0]["because"] == "no file names the domain 'other'"


async def test_an_override_is_explained_as_one():
    asked = Asked(TREE)
    question = request("d", [("user", "u")])
    question.descriptors[0].limit.requests_per_unit = 7
    question.descriptors[0].limit.unit = 3
    parsed = read_question(question.SerializeToString())
    (explained,) = (await explain_question(TREE, parsed, asked.limiter, asked.now))["descriptors"]
    assert explained["because"] == "the descriptor brings its own limit"
    assert (explained["limit"]["requests"], explained["limit"]["unit"]) == (7, "hour")


async def test_a_question_that_cannot_be_answered_cannot_be_explained_either():
    asked = Asked(TREE)
    with pytest.raises(QuestionInvalid, match="rate limit domain must not be empty"):
        await explain_question(TREE, read_question(b""), asked.limiter, asked.now)
