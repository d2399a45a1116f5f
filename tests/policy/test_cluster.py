"""The compiled clusters: how Envoy reaches the upstreams and the sidecar."""

import pytest

from policy.cluster import upstream_cluster
from policy.envoy import compile_envoy
from policy.upstream import Outliers
from sidecar.loop import CALLS
from tests.policy.build import compile_example, load_example


@pytest.fixture(scope="module")
def files():
    return compile_example()


def clusters(files):
    return {cluster["name"]: cluster for cluster in files["cds.yaml"]["resources"]}


def test_every_cluster_has_explicit_breakers_and_the_sidecar_the_widest(files):
    """M-08: no default of 1024 anywhere, and the authoriser is never the narrowest place."""
    rooms = {}
    for name, cluster in clusters(files).items():
        thresholds = cluster["circuit_breakers"]["thresholds"]
        assert len(thresholds) == 2
        for threshold in thresholds:
            assert {"max_connections", "max_pending_requests", "max_requests", "max_retries"} <= threshold.keys()
        rooms[name] = thresholds[0]["max_requests"]
    assert rooms.pop("wardgate") >= sum(rooms.values())


def test_sidecar_is_pinged_no_more_often_than_grpc_servers_bear(files):
    """G-03: pings every ten seconds and more often are punished with too_many_pings."""
    (options,) = clusters(files)["wardgate"]["typed_extension_protocol_options"].values()

    assert options["explicit_http_config"]["http2_protocol_options"]["connection_keepalive"]["interval"] == "30s"


def test_envoy_moves_to_another_connection_before_the_sidecar_asks_it_to(files):
    calls = {
        name: next(iter(cluster["typed_extension_protocol_options"].values()))["common_http_protocol_options"].get(
            "max_requests_per_connection"
        )
        for name, cluster in clusters(files).items()
    }

    assert 1000 < calls.pop("wardgate") < CALLS
    assert set(calls.values()) == {None}


def test_each_worker_of_the_sidecar_is_an_endpoint_of_its_own():
    cluster = clusters(compile_envoy(load_example({"WARDGATE_WORKERS": "3"})))["wardgate"]
    endpoints = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]

    paths = [item["endpoint"]["address"]["pipe"]["path"] for item in endpoints]
    assert paths == [f"/run/wardgate/sidecar.sock.{index}" for index in range(3)]


def test_upstreams_are_spoken_to_over_mutual_tls_and_http_2(files):
    for name in ("account-ledger", "payment-initiation"):
        cluster = clusters(files)[name]
        context = cluster["transport_socket"]["typed_config"]
        assert context["sni"] == name
        common = context["common_tls_context"]
        (shown,) = common["tls_certificate_sds_secret_configs"]
        (secret,) = files[f"sds-{shown['name']}.yaml"]["resources"]
        assert secret["tls_certificate"]["private_key"] == {"filename": "/etc/wardgate/pki/gateway.key"}
        (matcher,) = common["validation_context"]["match_typed_subject_alt_names"]
        assert matcher["matcher"]["exact"] == name
        assert cluster["lb_policy"] == "LEAST_REQUEST"
        assert cluster["connect_timeout"] == "0.250s"


def test_host_names_are_resolved_and_addresses_are_not():
    named = clusters(compile_envoy(load_example({"LEDGER_HOST": "account-ledger"})))

    assert named["account-ledger"]["cluster_type"]["name"] == "envoy.clusters.dns"
    # STATIC is the zero value.
    assert named["payment-initiation"].get("type", "STATIC") == "STATIC"


def cluster_with(**settings):
    """The compiled cluster of an upstream with such outliers."""
    document = load_example({})
    upstream = document.upstreams["account-ledger"].model_copy(update={"outliers": Outliers(**settings)})
    return upstream_cluster("account-ledger", upstream, document)


def test_row_of_failures_counts_where_no_rate_is_named_or_both_are():
    """Envoy has defaults of its own for all of them, so each is said."""
    for settings, row, enforced in (
        ({}, 5, 100),
        ({"failure_percent": 50}, None, 0),
        ({"failure_percent": 50, "consecutive_failures": 3}, 3, 100),
    ):
        built = cluster_with(**settings).outlier_detection
        assert built.consecutive_5xx == built.consecutive_gateway_failure == row
        assert built.enforcing_consecutive_5xx == built.enforcing_consecutive_gateway_failure == enforced
        assert built.enforcing_failure_percentage == (100 if "failure_percent" in settings else None)


def test_envoy_does_not_bring_back_what_may_be_left_out():
    """By default it uses all endpoints again once more than half of them are out."""
    settings = [cluster_with(most=most).common_lb_config for most in (50, 80, 100)]

    assert [each and each.healthy_panic_threshold.value for each in settings] == [None, 20, 0]
