"""From outcomes to the answer."""

from model.instant import MINUTE, SECOND
from model.quota import Outcome
from ratelimit.judge import UNLIMITED_REMAINING, describe_question, judge_lines
from ratelimit.plan import plan_lines
from ratelimit.question import Descriptor, Question
from ratelimit.rules import Rule, Unit, make_quota
from tests.ratelimit.asking import rules

TREE = rules("""
    domain: d
    descriptors:
      - {key: a, rate_limit: {unit: minute, requests_per_unit: 5}}
      - {key: b, rate_limit: {unit: hour, requests_per_unit: 5}}
      - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 5}}
""")


def judge(outcomes, *keys: str, hits: int | None = None, **options):
    question = Question("d", tuple(Descriptor(((key, "x"),), hits) for key in keys))
    return judge_lines(question, plan_lines(TREE, question), outcomes, **options)


def refused(remaining: int = 0) -> Outcome:
    return Outcome(allowed=False, remaining=remaining, retry_after=30 * SECOND, reset=MINUTE)


def passed(remaining: int) -> Outcome:
    return Outcome(allowed=True, remaining=remaining, retry_after=0, reset=MINUTE)


def test_r_08_a_descriptor_that_refuses_has_nothing_left_even_where_a_cheaper_call_would_pass():
    """Envoy describes the limit with the fewest requests left: that must be the one that refused."""
    answer = judge([refused(remaining=3), passed(2)], "a", "b", hits=4)
    assert [status.remaining for status in answer.statuses] == [0, 2]
    assert [status.reset for status in answer.statuses] == [30 * SECOND, MINUTE]
    assert answer.statuses[0].scope == ("a",)


def test_a_shadow_rule_that_is_exceeded_says_ok_and_is_not_shown():
    answer = judge([refused(), passed(2)], "shadow", "a")
    assert not answer.refused
    assert [(status.exceeded, status.over) for status in answer.statuses] == [(True, False), (False, False)]
    assert [quota.name for quota, _ in answer.limits] == ["a"]


def test_a_look_that_found_nothing_is_a_refusal_with_a_wait():
    answer = judge([passed(0)], "a", hits=0)
    assert answer.refused
    assert answer.statuses[0].reset == MINUTE
    assert not answer.limits[0][1].allowed


def test_more_than_the_wire_can_say_is_left_is_written_as_the_most_it_can():
    answer = judge([passed(2**40)], "a")
    assert answer.statuses[0].remaining == UNLIMITED_REMAINING


def test_global_shadow_refuses_nothing_and_shows_no_limit():
    answer = judge([refused()], "a", all_shadow=True)
    assert not answer.refused
    assert answer.statuses[0].over
    assert answer.limits == ()


def test_metadata_is_merged_deeply_and_of_two_plain_values_the_first_one_stands():
    quota = make_quota("q", 1, Unit.DAY)
    first = Rule("a", quota, metadata={"s": {"name": "one", "deep": {"x": 1}}, "t": 1})
    other = Rule("b", quota, metadata={"s": {"name": "two", "deep": {"y": 2}}, "t": {"z": 3}, "u": 4})
    told = describe_question(Question("d", ()), [first, other])
    assert told["metadata"] == {"s": {"name": "one", "deep": {"x": 1, "y": 2}}, "t": 1, "u": 4}
    assert first.metadata == {"s": {"name": "one", "deep": {"x": 1}}, "t": 1}


def test_metadata_is_there_only_where_a_rule_has_some_or_it_is_asked_for():
    assert judge([passed(1)], "a").metadata is None
    assert judge([passed(1)], "a", describe=True).metadata == {"domain": "d", "descriptors": [{"entries": ["a=x"]}]}
