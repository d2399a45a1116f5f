"""P-01: one page for all workers, in which what a dead worker counted stays counted and nothing piles up."""

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from sidecar.merge import Merged, write_report
from sidecar.metrics import Metrics


def report(*, decisions, route="home", saturation=0.5):
    metrics = Metrics(lambda: [("saturation", "Saturation.", {}, saturation)])
    metrics.know({route})
    for _ in range(decisions):
        metrics.decision("authz", route, "allow", 200, 200_000)
    return write_report(metrics.registry)


def page(merged):
    registry = CollectorRegistry()
    registry.register(merged)
    return generate_latest(registry).decode().splitlines()


DECISIONS = 'wardgate_decisions_total{reason="allow",route="home",service="authz",status="200"}'


def test_counters_and_histograms_are_summed_and_gauges_keep_their_worker():
    merged = Merged()
    merged.reports = {0: report(decisions=2), 1: report(decisions=3, saturation=0.25)}
    lines = page(merged)
    assert f"{DECISIONS} 5.0" in lines
    assert 'wardgate_decision_seconds_bucket{le="0.00025",service="authz"} 5.0' in lines
    assert 'wardgate_saturation{worker="0"} 0.5' in lines
    assert 'wardgate_saturation{worker="1"} 0.25' in lines


def test_five_hundred_deaths_leave_the_sums_right_and_the_page_as_long_as_before():
    """P-01: recycle workers 500 times, scrape after each 50."""
    merged = Merged()
    merged.reports[0] = report(decisions=2)
    length = len(page(merged))
    for number in range(1, 501):
        merged.retire(0)
        merged.reports[0] = report(decisions=2)
        if number % 50 == 0:
            lines = page(merged)
            assert f"{DECISIONS} {2.0 * (number + 1)}" in lines
            assert len(lines) == length


def test_sums_do_not_fall_between_a_death_and_the_successors_first_report():
    merged = Merged()
    merged.reports[0] = report(decisions=4)
    merged.retire(0)
    assert f"{DECISIONS} 4.0" in page(merged)
    assert not any(line.startswith("wardgate_saturation{") for line in page(merged))


def test_what_the_dead_counted_for_a_route_that_is_gone_is_forgotten():
    """P-04: the number of series follows from the policy, over deaths and edits too."""
    merged = Merged()
    for route in ("home", "away", "other"):
        merged.reports[0] = report(decisions=1, route=route)
        merged.retire(0)
    merged.know({"home"})
    assert [line for line in page(merged) if line.startswith("wardgate_decisions_total")] == [f"{DECISIONS} 1.0"]


def test_a_new_parent_begins_at_zero():
    """P-02: nothing is kept on disk, so nothing of an earlier run can be added."""
    assert page(Merged()) == []
