"""The Envoy configuration of the rate limit tests: one route for each way in which the filter can ask."""

from collections.abc import Mapping
from pathlib import Path

TYPE = "type.googleapis.com/envoy"
FILTERS = f"{TYPE}.extensions.filters.http"
RATELIMIT = "envoy.filters.http.ratelimit"


def action(kind: str, **fields) -> dict:
    return {kind: fields}


def header(name: str, key: str) -> dict:
    return action("request_headers", header_name=name, descriptor_key=key)


def generic(value: str, key: str = "generic_key") -> dict:
    return action("generic_key", descriptor_key=key, descriptor_value=value)


EXACT_PREMIUM = {"name": "x-plan", "string_match": {"exact": "premium"}}
PAGE_PRESENT = {"name": "page", "present_match": True}

ROUTES: dict[str, list[dict]] = {
    "/generic": [{"actions": [generic("all")]}],
    "/client": [{"actions": [header("x-client", "client")]}],
    "/address": [{"actions": [action("remote_address")]}],
    "/masked": [{"actions": [action("masked_remote_address", v4_prefix_mask_len=8)]}],
    "/plan": [
        {
            "actions": [
                action("header_value_match", descriptor_value="premium", expect_match=True, headers=[EXACT_PREMIUM])
            ]
        },
        {
            "actions": [
                action("header_value_match", descriptor_value="other", expect_match=False, headers=[EXACT_PREMIUM])
            ]
        },
    ],
    "/query": [{"actions": [action("query_parameters", query_parameter_name="user", descriptor_key="user")]}],
    "/paged": [
        {
            "actions": [
                action(
                    "query_parameter_value_match",
                    descriptor_value="paged",
                    expect_match=True,
                    query_parameters=[PAGE_PRESENT],
                )
            ]
        }
    ],
    "/cluster": [{"actions": [action("source_cluster"), action("destination_cluster")]}],
    "/two": [{"actions": [generic("site", "site")]}, {"actions": [header("x-client", "member")]}],
    "/cost": [{"actions": [header("x-client", "ten")], "hits_addend": {"format": "%REQ(x-cost)%"}}],
    "/debit": [
        {"actions": [header("x-client", "ten")], "hits_addend": {"number": 0}},
        {"actions": [header("x-client", "ten")], "hits_addend": {"number": 6}, "apply_on_stream_done": True},
    ],
    "/reserve": [
        {"actions": [header("x-client", "ten")], "hits_addend": {"number": 8}},
        {
            "actions": [header("x-client", "ten")],
            "hits_addend": {"number": 5, "is_negative_hits": True},
            "apply_on_stream_done": True,
        },
    ],
    "/override": [
        {
            "actions": [header("x-client", "client")],
            "limit": {"dynamic_metadata": {"metadata_key": {"key": "test.limits", "path": [{"key": "override"}]}}},
        }
    ],
    "/metadata": [
        {
            "actions": [
                action(
                    "metadata", descriptor_key="plan", metadata_key={"key": "test.limits", "path": [{"key": "plan"}]}
                )
            ]
        }
    ],
    "/covered": [{"actions": [header("x-client", "client")]}, {"actions": [action("remote_address")]}],
    "/shadow": [{"actions": [header("x-client", "shadow")]}],
    "/free": [{"actions": [generic("free", "free")]}],
    "/block": [{"actions": [generic("x", "block")]}],
    "/unknown": [{"actions": [generic("x", "nobody knows this key")]}],
    "/steer": [{"actions": [generic("one", "service")]}, {"actions": [generic("two", "service")]}],
    "/plain": [],
}

RULES = """
    domain: edge
    descriptors:
      - {key: generic_key, value: all, rate_limit: {unit: minute, requests_per_unit: 3}}
      - {key: client, rate_limit: {name: per client, unit: minute, requests_per_unit: 2}}
      - {key: remote_address, rate_limit: {unit: minute, requests_per_unit: 4}}
      - {key: masked_remote_address, value: 127.0.0.0/8, rate_limit: {unit: hour, requests_per_unit: 5}}
      - {key: header_match, value: premium, rate_limit: {unit: minute, requests_per_unit: 3}}
      - {key: header_match, value: other, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: user, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: query_match, value: paged, rate_limit: {unit: minute, requests_per_unit: 1}}
      - key: source_cluster
        value: proxy
        descriptors:
          - {key: destination_cluster, value: one, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: site, rate_limit: {unit: minute, requests_per_unit: 100}}
      - {key: member, rate_limit: {unit: minute, requests_per_unit: 5}}
      - {key: ten, rate_limit: {unit: minute, requests_per_unit: 10}}
      - {key: plan, value: gold, rate_limit: {unit: week, requests_per_unit: 1}}
      - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: free, rate_limit: {unlimited: true}}
      - {key: block, rate_limit: {unit: second, requests_per_unit: 0}}
      - key: service
        value: one
        quota_mode: true
        rate_limit: {unit: minute, requests_per_unit: 1}
        metadata: {steer: {name: one}}
      - key: service
        value: two
        quota_mode: true
        rate_limit: {unit: minute, requests_per_unit: 2}
        metadata: {steer: {name: two}}
"""

STEERED = f"%DYNAMIC_METADATA({RATELIMIT}:metadata:steer:name)%"


def bootstrap(ports: dict[str, int]) -> dict:
    """A listener for each way in which the filter can be set up, all with the same routes."""
    return {
        "node": {"id": "test", "cluster": "proxy"},
        "admin": {"address": socket(0)},
        "static_resources": {
            "clusters": [
                cluster("one", ports["one"]),
                cluster("limits", ports["limits"], http2=True),
                # Nobody listens on this port: the service is away.
                cluster("away", 1, http2=True),
            ],
            "listeners": [
                listener("plain", domain="edge", enable_x_ratelimit_headers="DRAFT_VERSION_03"),
                listener("status", domain="edge", rate_limited_status={"code": 503}),
                listener("deny", domain="edge", failure_mode_deny=True, status_on_error={"code": 503}),
                listener("gone", "away", domain="edge"),
                listener("gone-deny", "away", domain="edge", failure_mode_deny=True),
                listener("other-domain", domain="unknown", failure_mode_deny=True),
            ],
        },
    }


def socket(port: int) -> dict:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def cluster(name: str, port: int, *, http2: bool = False) -> dict:
    endpoint = {"endpoint": {"address": socket(port)}}
    made = {
        "name": name,
        "connect_timeout": "5s",
        "type": "STATIC",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
    }
    if http2:
        protocol = f"{TYPE}.extensions.upstreams.http.v3.HttpProtocolOptions"
        made["typed_extension_protocol_options"] = {
            protocol.removeprefix("type.googleapis.com/"): {
                "@type": protocol,
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        }
    return made


def listener(name: str, service: str = "limits", **options) -> dict:
    limit = {
        "@type": f"{FILTERS}.ratelimit.v3.RateLimit",
        # Twenty milliseconds are the default; a busy machine must not turn a refusal into a pass.
        "timeout": "10s",
        "rate_limit_service": {
            "transport_api_version": "V3",
            "grpc_service": {"envoy_grpc": {"cluster_name": service}},
        },
        **options,
    }
    manager = {
        "@type": f"{TYPE}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": name,
        "http_filters": [
            {"name": "set", "typed_config": {"@type": f"{FILTERS}.set_metadata.v3.Config", "metadata": METADATA}},
            {"name": RATELIMIT, "typed_config": limit},
            {"name": "steer", "typed_config": {"@type": f"{FILTERS}.header_mutation.v3.HeaderMutation", **STEER}},
            {"name": "router", "typed_config": {"@type": f"{FILTERS}.router.v3.Router"}},
        ],
        "route_config": {"name": name, "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes()}]},
    }
    chain = {"filters": [{"name": "http", "typed_config": manager}]}
    return {"name": name, "address": socket(0), "filter_chains": [chain]}


METADATA = [
    {
        "metadata_namespace": "test.limits",
        "value": {"plan": "gold", "override": {"requests_per_unit": 1, "unit": "HOUR"}},
    }
]

STEER = {
    "mutations": {
        "request_mutations": [
            {
                "append": {
                    "header": {"key": "x-steered-to", "value": STEERED},
                    "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
                }
            }
        ]
    }
}


def routes() -> list[dict]:
    return [
        {
            "match": {"prefix": path},
            "route": {"cluster": "one"},
            "typed_per_filter_config": {
                RATELIMIT: {"@type": f"{FILTERS}.ratelimit.v3.RateLimitPerRoute", "rate_limits": limits}
            },
        }
        for path, limits in ROUTES.items()
    ]


def example_config(examples: Path, ports: Mapping[str, int]) -> str:
    """The reference's own Envoy configuration; addresses and the filter's time-out are ours."""
    config = (examples / "envoy" / "proxy.yaml").read_text()
    for ours, theirs in {
        "address: 127.0.0.1\n": "address: 0.0.0.0\n",
        "address: 127.0.0.1 \n": "address: ratelimit\n",
        "address: 127.0.0.1  \n": "address: envoy-mock\n",
        f"port_value: {ports['limits']}\n": "port_value: 8081\n",
        f"port_value: {ports['one']}\n": "port_value: 9999\n",
        f"port_value: {ports['two']}\n": "port_value: 10001\n",
        "port_value: 0\n": "port_value: 8888\n",
        "port_value: 0 \n": "port_value: 8001\n",
        "domain: rl\n                      timeout: 10s\n": "domain: rl\n",
    }.items():
        assert theirs in config
        config = config.replace(theirs, ours)
    return config
