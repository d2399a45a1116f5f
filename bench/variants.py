"""Envoy's configuration for the comparison: the compiled one, and copies of its listener that differ in one filter."""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

AUTHZ = "envoy.filters.http.ext_authz"
PROC = "envoy.filters.http.ext_proc"
LIMIT = "envoy.filters.http.ratelimit"
NETWORK = "type.googleapis.com/envoy.extensions.filters.network."
ENVOY = "type.googleapis.com/envoy.extensions.filters.http."

Files = dict[str, dict[str, Any]]


def write_variants(
    files: Files, folder: Path, ports: Mapping[str, int], sockets: Mapping[str, Path], jwks: str
) -> None:
    """Write the compiled files with one listener a variant and one cluster a server.

    `ports` maps variants (baseline, native, noop, fused, split, response) to ports; `sockets` maps servers (noop, and
    wardgate, which the compiled cluster already names) to their Unix sockets.
    """
    base = files["lds.yaml"]["resources"][0]
    builders = {
        "baseline": lambda filters: _without(filters, AUTHZ, PROC),
        "native": lambda filters: _native(filters, jwks),
        "noop": lambda filters: _towards(_without(filters, PROC), "noop"),
        "fused": lambda filters: _without(filters, PROC),
        "split": lambda filters: _split(_without(filters, PROC)),
        "response": lambda filters: filters,
    }
    listeners = [_listener(base, name, port, builders[name]) for name, port in ports.items()]
    clusters = files["cds.yaml"]["resources"]
    model = next(c for c in clusters if c["name"] == "wardgate")
    clusters = [*clusters, *(_cluster(model, name, path) for name, path in sockets.items() if name != "wardgate")]
    files["lds.yaml"]["resources"] = listeners
    files["cds.yaml"]["resources"] = clusters
    route_file = files["rds-bench.yaml"]["resources"][0]
    for route in route_file["virtual_hosts"][0]["routes"]:
        _limit_actions(route)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")


def origin_config(port: int) -> dict[str, Any]:
    """An Envoy that answers 200 to everything: the upstream."""
    manager = {
        "@type": NETWORK + "http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "origin",
        "codec_type": "AUTO",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [
                        {
                            "match": {"prefix": "/"},
                            "direct_response": {"status": 200, "body": {"inline_string": '{"ok":true}'}},
                        }
                    ],
                }
            ]
        },
        "http_filters": [
            {
                "name": "router",
                "typed_config": {"@type": ENVOY + "router.v3.Router"},
            }
        ],
    }
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    return {"static_resources": {"listeners": [{"name": "origin", "address": address, "filter_chains": [chain]}]}}


def _listener(base: dict[str, Any], name: str, port: int, change: Any) -> dict[str, Any]:
    listener = copy.deepcopy(base)
    listener["name"] = name
    listener["address"]["socket_address"]["port_value"] = port
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    manager["stat_prefix"] = name
    manager["http_filters"] = change(manager["http_filters"])
    manager.pop("access_log", None)
    return listener


def _without(filters: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [f for f in filters if f["name"] not in names]


def _towards(filters: list[dict[str, Any]], cluster: str) -> list[dict[str, Any]]:
    for f in filters:
        if f["name"] == AUTHZ:
            f["typed_config"]["grpc_service"]["envoy_grpc"]["cluster_name"] = cluster
    return filters


def _native(filters: list[dict[str, Any]], jwks: str) -> list[dict[str, Any]]:
    """Envoy's own jwt_authn and local_ratelimit in place of ext_authz: no revocation, no fairness between clients."""
    provider = {
        "issuer": "https://idp.bench.example",
        "audiences": ["https://bench.example"],
        "local_jwks": {"inline_string": jwks},
    }
    rules = [{"match": {"prefix": "/"}, "requires": {"provider_name": "bench"}}]
    tokens = {"max_tokens": 100_000_000, "tokens_per_fill": 100_000_000, "fill_interval": "1s"}
    always = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}
    native = [
        {
            "name": "envoy.filters.http.jwt_authn",
            "typed_config": {
                "@type": ENVOY + "jwt_authn.v3.JwtAuthentication",
                "providers": {"bench": provider},
                "rules": rules,
            },
        },
        {
            "name": "envoy.filters.http.local_ratelimit",
            "typed_config": {
                "@type": ENVOY + "local_ratelimit.v3.LocalRateLimit",
                "stat_prefix": "bench",
                "token_bucket": tokens,
                "filter_enabled": always,
                "filter_enforced": always,
            },
        },
    ]
    place = next(i for i, f in enumerate(filters) if f["name"] == AUTHZ)
    return _without([*filters[:place], *native, *filters[place:]], AUTHZ, PROC)


def _split(filters: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Two calls where the fused Check makes one: ext_authz, then Envoy's rate limit filter."""
    service = {"grpc_service": {"envoy_grpc": {"cluster_name": "wardgate"}}, "transport_api_version": "V3"}
    limit = {
        "name": LIMIT,
        "typed_config": {
            "@type": ENVOY + "ratelimit.v3.RateLimit",
            "domain": "bench",
            "timeout": "1s",
            "failure_mode_deny": True,
            "rate_limit_service": service,
        },
    }
    place = next(i for i, f in enumerate(filters) if f["name"] == AUTHZ)
    return [*filters[: place + 1], limit, *filters[place + 1 :]]


def _limit_actions(route: dict[str, Any]) -> None:
    """Describe a request to the rate limit filter; listeners without the filter pay nothing for it."""
    action = route.get("route")
    if action is not None:
        entries = [{"generic_key": {"descriptor_value": route["name"]}}, {"remote_address": {}}]
        action["rate_limits"] = [{"actions": entries}]


def _cluster(model: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    cluster = copy.deepcopy(model)
    cluster["name"] = cluster["load_assignment"]["cluster_name"] = name
    cluster["load_assignment"]["endpoints"] = [
        {"lb_endpoints": [{"endpoint": {"address": {"pipe": {"path": str(path)}}}}]}
    ]
    return cluster
