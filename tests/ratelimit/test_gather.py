"""The waiting of the rate limit service: what is asked of the limiter, and in which order."""

import pytest

from model.instant import MINUTE
from model.quota import Outcome
from ratelimit.gather import charge_lines
from ratelimit.plan import plan_lines
from ratelimit.question import Descriptor, Question
from tests.ratelimit.asking import START, rules

TREE = rules("""
    domain: d
    descriptors:
      - {key: hard, rate_limit: {unit: minute, requests_per_unit: 5}}
      - {key: zero, rate_limit: {unit: minute, requests_per_unit: 0}}
      - {key: soft, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 5}}
""")


class ColdLimiter:
    """A limiter that knows nothing by itself and keeps the order in which it was asked."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.asked: list[tuple[str, list[int]]] = []

    def admit(self, charges, now):
        return None

    async def spend(self, charges, now):
        return self._answer("spend", charges)

    async def peek(self, charges, now):
        return self._answer("peek", charges)

    async def refund(self, charges, now):
        self._answer("refund", charges)

    def _answer(self, verb, charges):
        self.asked.append((verb, [charge.cost for charge in charges]))
        return [Outcome(charge.cost <= self.left, self.left, 0, MINUTE) for charge in charges]


async def charge(left: int, *descriptors: tuple[str, int | None], negative: bool = False, drain: bool = False):
    limiter = ColdLimiter(left)
    made = tuple(Descriptor(((key, "x"),), hits, negative=negative) for key, hits in descriptors)
    outcomes = await charge_lines(limiter, plan_lines(TREE, Question("d", made)), START, drain=drain)
    return limiter.asked, [outcome and outcome.allowed for outcome in outcomes]


@pytest.mark.parametrize(
    ("descriptors", "asked"),
    [
        ([("hard", None)], [("spend", [1])]),
        ([("hard", 2), ("hard", None)], [("spend", [2, 1])]),
        ([("none", None)], []),
        ([("zero", None)], []),
        ([("hard", 0)], [("peek", [0])]),
        ([("hard", 0), ("hard", 3)], [("peek", [0, 0]), ("spend", [3])]),
        ([("hard", 1), ("soft", 1)], [("peek", [0, 0]), ("spend", [1, 1])]),
        ([("hard", 1), ("zero", 1)], [("peek", [0])]),
    ],
)
async def test_a_request_with_room_is_asked_about_once_where_that_is_enough(descriptors, asked):
    assert (await charge(5, *descriptors))[0] == asked


async def test_a_look_that_finds_nothing_ends_it_before_anything_is_spent():
    asked, allowed = await charge(0, ("hard", 0), ("soft", 1))
    assert asked == [("peek", [0, 0])]
    assert allowed == [False, False]


async def test_hits_are_given_back_before_what_is_left_is_asked_for():
    asked, allowed = await charge(5, ("hard", 3), negative=True)
    assert asked == [("refund", [3]), ("peek", [0])]
    assert allowed == [True]


async def test_a_debit_that_did_not_fit_is_followed_by_what_is_left():
    assert (await charge(2, ("soft", 9)))[0] == [("spend", [9]), ("spend", [2])]
    assert (await charge(2, ("hard", 9)))[0] == [("spend", [9])]
    assert (await charge(2, ("hard", 9), drain=True))[0] == [("spend", [9]), ("spend", [2])]
