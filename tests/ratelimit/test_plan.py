"""From a question to charges, and which lines refuse."""

import pytest

from model.instant import MINUTE
from model.quota import Outcome
from ratelimit.plan import (
    find_refusing,
    is_over,
    list_charges,
    list_debts,
    list_looks,
    list_refunds,
    look_first,
    plan_lines,
    would_exceed,
)
from ratelimit.question import Descriptor, Question, QuestionInvalid
from tests.ratelimit.asking import rules

TREE = rules("""
    domain: d
    descriptors:
      - {key: hard, rate_limit: {unit: minute, requests_per_unit: 5}}
      - {key: zero, rate_limit: {unit: minute, requests_per_unit: 0}}
      - {key: free, rate_limit: {unlimited: true}}
      - {key: soft, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 5}}
      - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 5}}
      - {key: dark, shadow_mode: true, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 5}}
""")

FULL = Outcome(allowed=False, remaining=0, retry_after=MINUTE, reset=MINUTE)
ROOM = Outcome(allowed=True, remaining=4, retry_after=0, reset=MINUTE)


def plan(*keys: str, hits: int | None = None, **options):
    descriptors = tuple(Descriptor(((key.rstrip("?"), "x"),), 0 if key.endswith("?") else hits) for key in keys)
    return plan_lines(TREE, Question("d", descriptors), **options)


def test_a_charge_names_its_key_its_cost_and_the_domain_as_its_principal():
    (line,) = plan("hard", hits=3)
    assert (line.charge.key, line.charge.cost, line.charge.principal) == (("d", "MINUTE", "hard", "x"), 3, "d")
    assert line.charge.quota.enforced


def test_only_what_has_a_limit_is_charged():
    assert [line.charge is not None for line in plan("hard", "zero", "free", "none", "soft", "shadow")] == [
        True,
        False,
        False,
        False,
        True,
        True,
    ]


def test_soft_and_shadow_limits_are_counted_beside_the_enforced_ones():
    assert [line.charge.quota.enforced for line in plan("hard", "soft", "shadow", "dark")] == [
        True,
        False,
        False,
        False,
    ]
    assert not plan("hard", all_soft=True)[0].charge.quota.enforced


def test_a_look_is_asked_about_and_never_spent():
    lines = plan("hard", "hard?")
    assert [charge.cost for charge in list_charges(lines)] == [1]
    assert [charge.cost for charge in list_looks(lines)] == [0, 0]


def test_hits_that_are_given_back_are_neither_spent_nor_a_cause_of_refusal():
    descriptors = (Descriptor((("hard", "x"),), 3, negative=True), Descriptor((("soft", "x"),), negative=True))
    lines = plan_lines(TREE, Question("d", descriptors))
    assert [charge.cost for charge in list_refunds(lines)] == [3, 1]
    assert list_charges(lines) == []
    assert not any(line.looks or line.hits for line in lines)
    assert find_refusing(lines, [is_over(line, FULL) for line in lines]) == [False, False]


def test_no_hits_given_back_are_a_look():
    lines = plan_lines(TREE, Question("d", (Descriptor((("hard", "x"),), 0, negative=True),)))
    assert list_refunds(lines) == []
    assert lines[0].looks


@pytest.mark.parametrize(
    ("keys", "first"),
    [
        (["hard"], False),
        (["hard", "hard", "free", "none"], False),
        (["hard", "shadow"], False),
        (["hard?"], True),
        (["soft", "soft"], False),
        (["hard", "hard?"], True),
        (["hard", "zero"], True),
        (["hard", "soft"], True),
        (["zero"], False),
    ],
)
def test_a_request_is_looked_at_first_where_a_spend_alone_could_not_be_all_or_nothing(keys, first):
    assert look_first(plan(*keys)) is first


@pytest.mark.parametrize(
    ("keys", "over", "refusing"),
    [
        (["hard", "hard"], [True, False], [True, False]),
        (["hard", "shadow"], [False, True], [False, False]),
        (["soft", "soft"], [True, False], [False, False]),
        (["soft", "soft"], [True, True], [True, True]),
        (["soft"], [True], [True]),
        (["hard", "soft"], [True, False], [True, False]),
        (["hard", "soft"], [False, True], [False, True]),
        (["dark"], [True], [False]),
        (["soft", "dark"], [True, False], [True, False]),
        (["hard"], [False], [False]),
    ],
)
def test_hard_limits_refuse_alone_soft_ones_together_and_shadow_ones_never(keys, over, refusing):
    assert find_refusing(plan(*keys), over) == refusing


def test_a_look_tells_whether_the_hits_would_find_room():
    (spend,) = plan("hard", hits=4)
    (larger,) = plan("hard", hits=5)
    (look,) = plan("hard?")
    assert [would_exceed(line, ROOM) for line in (spend, larger, look)] == [False, True, False]
    assert would_exceed(look, Outcome(allowed=True, remaining=0, retry_after=0, reset=MINUTE))
    assert would_exceed(plan("zero")[0], None)
    assert not would_exceed(plan("free")[0], None)
    assert not would_exceed(plan("none")[0], None)


def test_a_debt_is_what_is_left_of_a_soft_limit_that_was_asked_for_more():
    refused = Outcome(allowed=False, remaining=3, retry_after=MINUTE, reset=MINUTE)
    (debt,) = list_debts(plan("soft", hits=9), [refused], drain=False)
    assert debt.cost == 3
    assert list_debts(plan("soft", hits=9), [FULL], drain=False) == []
    assert list_debts(plan("soft", hits=9), [ROOM], drain=False) == []
    assert list_debts(plan("hard", hits=9), [refused], drain=False) == []
    assert [charge.cost for charge in list_debts(plan("hard", hits=9), [refused], drain=True)] == [3]


def test_r_14_a_question_without_a_domain_or_a_descriptor_cannot_be_answered():
    with pytest.raises(QuestionInvalid, match="rate limit domain must not be empty"):
        plan_lines(TREE, Question("", ()))
    with pytest.raises(QuestionInvalid, match="rate limit descriptor list must not be empty"):
        plan_lines(TREE, Question("d", ()))
