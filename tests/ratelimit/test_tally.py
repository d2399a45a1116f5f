"""Counters of rules: true, and never more than so many."""

import random

from hypothesis import given
from hypothesis import strategies as st

from ratelimit.tally import OTHERS, Row, RuleTally
from tests.ratelimit.asking import Asked, rules

TREE = rules("""
    domain: d
    descriptors:
      - {key: ten, rate_limit: {unit: minute, requests_per_unit: 10}}
      - {key: quiet, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: free, rate_limit: {unlimited: true}}
      - {key: each, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 10}}
""")


def row(**counted) -> dict[str, int]:
    return dict.fromkeys(("total", "within", "near", "over", "shadow"), 0) | counted


async def test_hits_above_four_fifths_of_a_limit_are_near_it():
    asked = Asked(TREE)
    await asked.codes(13, "d", [("ten", "x")])
    assert asked.service.tally.snapshot() == {"d.ten": row(total=13, within=10, near=2, over=3)}


async def test_only_the_part_of_many_hits_that_lies_above_is_near():
    asked = Asked(TREE)
    await asked.ask("d", [("ten", "x")], hits=9)
    assert asked.service.tally.snapshot() == {"d.ten": row(total=9, within=9, near=1)}


async def test_what_a_shadow_rule_let_pass_is_over_and_shadow():
    asked = Asked(TREE)
    await asked.codes(3, "d", [("quiet", "x")])
    assert asked.service.tally.snapshot() == {"d.quiet": row(total=3, within=1, near=1, over=2, shadow=2)}


async def test_an_unlimited_rule_counts_its_hits_and_a_look_counts_none():
    asked = Asked(TREE)
    await asked.ask("d", [("free", "x")], hits=4)
    assert asked.service.tally.snapshot() == {"d.free": row(total=4, within=4)}


async def test_a_descriptor_without_a_rule_has_no_series():
    asked = Asked(TREE)
    await asked.ask("d", [("none", "x")])
    assert asked.service.tally.snapshot() == {}


async def test_a_flood_of_values_leaves_as_many_series_as_there_may_be():
    asked = Asked(TREE)
    asked.service.tally = RuleTally(capacity=8)
    for number in range(500):
        await asked.ask("d", [("each", str(number))])
    counted = asked.service.tally.snapshot()
    assert len(counted) == 9
    assert sum(each["total"] for each in counted.values()) == 500
    assert counted[OTHERS]["total"] == 492


def count(tally: RuleTally, name: str, times: int = 1) -> None:
    tally._count(name, Row(times, times))


def test_the_names_that_are_met_most_keep_their_series_through_a_flood_of_others():
    tally = RuleTally(capacity=10)
    draw = random.Random(1)
    names = [f"heavy{number}" for number in range(5)] * 1000 + [f"light{number}" for number in range(1000)]
    draw.shuffle(names)
    for name in names:
        count(tally, name)
    kept = tally.snapshot()
    assert {f"heavy{number}" for number in range(5)} <= set(kept)
    assert all(kept[f"heavy{number}"]["total"] > 900 for number in range(5))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=300))
def test_whatever_is_counted_the_sum_is_true_and_the_table_is_bounded(hits):
    tally = RuleTally(capacity=7)
    for name, times in hits:
        count(tally, str(name), times)
    counted = tally.snapshot()
    assert sum(each["total"] for each in counted.values()) == sum(times for _, times in hits)
    assert len(counted) <= 8
    assert len(tally._heap) == len(tally._ranks) == len(tally._rows) <= 7


def test_a_snapshot_is_a_copy():
    tally = RuleTally()
    count(tally, "a")
    before = tally.snapshot()
    count(tally, "a")
    assert before["a"]["total"] == 1
