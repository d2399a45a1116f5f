"""P-04: the number of series follows from the policy and not from the traffic."""

from prometheus_client.exposition import generate_latest

from sidecar.metrics import Metrics


def text(metrics):
    return generate_latest(metrics.registry).decode()


def series(metrics, name):
    return [line for line in text(metrics).splitlines() if line.startswith(name)]


def test_routes_outside_the_policy_share_one_label():
    """P-04: 100,000 distinct unknown routes and none at all are one series."""
    metrics = Metrics()
    metrics.know({"accounts"})
    for number in range(100_000):
        metrics.decision("authz", f"/path/{number}", "route-unknown", 404, 1000)
    metrics.decision("authz", None, "route-unlabelled", 404, 1000)
    metrics.decision("authz", "accounts", "allow", 200, 1000)
    lines = series(metrics, "wardgate_decisions_total")
    assert len(lines) == 3
    assert (
        'wardgate_decisions_total{reason="route-unknown",route="unmatched",service="authz",status="404"} 100000.0'
        in lines
    )


def test_series_of_a_removed_route_end():
    metrics = Metrics()
    metrics.know({"a", "b"})
    for route in ("a", "b"):
        metrics.decision("authz", route, "allow", 200, 1000)
    metrics.know({"b"})
    assert [line for line in series(metrics, "wardgate_decisions_total") if 'route="a"' in line] == []
    assert len(series(metrics, "wardgate_decisions_total")) == 1


def test_latencies_fall_into_the_bucket_whose_bound_they_do_not_pass():
    metrics = Metrics()
    for took in (100_000, 100_001, 2_000_000_000):
        metrics.decision("authz", None, "allow", 200, took)
    lines = series(metrics, "wardgate_decision_seconds")
    assert 'wardgate_decision_seconds_bucket{le="0.0001",service="authz"} 1.0' in lines
    assert 'wardgate_decision_seconds_bucket{le="0.00025",service="authz"} 2.0' in lines
    assert 'wardgate_decision_seconds_bucket{le="1.0",service="authz"} 2.0' in lines
    assert 'wardgate_decision_seconds_count{service="authz"} 3.0' in lines


def test_gauges_are_asked_when_scraped():
    values = iter([1.0, 2.0])
    metrics = Metrics(lambda: [("jwks_age_seconds", "Age.", {"issuer": "i"}, next(values))])
    assert 'wardgate_jwks_age_seconds{issuer="i"} 1.0' in text(metrics)
    assert 'wardgate_jwks_age_seconds{issuer="i"} 2.0' in text(metrics)


def test_rare_events_are_counted_by_subject():
    metrics = Metrics()
    metrics.count("jwks_failures", "i")
    metrics.count("jwks_failures", "i", 2)
    assert 'wardgate_jwks_failures_total{subject="i"} 3.0' in text(metrics)
