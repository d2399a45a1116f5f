"""The simulation at a size that fits the test suite; `make simulate` runs the whole."""

import pytest

from tests.simulation.figures import judge, judge_outage, play
from tests.simulation.plot import draw_chart


@pytest.fixture(scope="module")
def plain():
    return judge(play(seconds=6, load=3_200, tenants=40))


@pytest.fixture(scope="module")
def outage():
    return judge_outage(play(seconds=10, load=2_400, tenants=30, cut=(3, 6)), (3, 6))


def test_no_tenant_gets_more_than_its_limit(plain):
    assert plain["overshoot_max"] == 0


def test_nearly_all_of_a_saturated_limit_can_be_used(plain):
    """The short run strands a few tokens at its end; the full one is held to 98 %."""
    assert plain["usable_share_mean"] > 0.96


def test_tenants_below_their_limit_are_not_refused(plain):
    assert plain["refused_below_limit_share"] < 0.0001


def test_no_decision_waits_on_a_key_seen_within_the_last_second(plain, outage):
    assert (plain["waiting_hot_decisions"], outage["degraded_waiting_hot_decisions"]) == (0, 0)


def test_all_instances_together_stay_within_the_limit_while_the_store_is_away(outage):
    assert outage["degraded_sum_over_limit"] <= 1


def test_the_return_of_the_store_brings_no_spike(outage):
    assert outage["degraded_return_over_limit"] <= 1
    assert outage["degraded_overshoot_max"] == 0


def test_the_plot_is_svg():
    chart = draw_chart({"a": [0, 1, 2]}, (1, 2), 2, "title")

    assert (chart[:4], chart.count("polyline")) == ("<svg", 1)
