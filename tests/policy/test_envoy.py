"""The compiled Envoy configuration says what the document means, and nothing that an attacker could use."""

import json

import pytest

from policy.envoy import compile_envoy
from policy.filters import PLACES
from policy.output import write_yaml
from tests.policy.build import EXAMPLES, MINIMAL, ROOT, compile_example, load_example, load_text

AUTHORITY = "envoy.filters.http.ext_authz"


@pytest.fixture(scope="module")
def files():
    return compile_example()


def walk(node):
    """Give every mapping inside a tree."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from walk(value)


def managers(files):
    for listener in files["lds.yaml"]["resources"]:
        yield listener, listener["filter_chains"][0]["filters"][0]["typed_config"]


def http_filters(manager):
    return {item["name"]: item for item in manager["http_filters"]}


def routes(files, plane):
    (configuration,) = files[f"rds-{plane}.yaml"]["resources"]
    (host,) = configuration["virtual_hosts"]
    return {route["name"]: route for route in host["routes"]}


@pytest.mark.parametrize("example", EXAMPLES)
def test_compiled_example_is_in_step(example):
    """envoy/ holds what the compiler makes; `python -m tests.policy.build` rewrites it."""
    folder, files = ROOT / "envoy" / example, compile_example(example)

    assert {path.name for path in folder.iterdir()} == files.keys()
    for name, content in files.items():
        assert (folder / name).read_text(encoding="utf-8") == write_yaml(content), name


def test_compilation_is_deterministic(files):
    assert json.dumps(compile_example()) == json.dumps(files)


def test_tls_1_3_is_the_only_version_anywhere(files):
    contexts = [node["tls_params"] for node in walk(files) if "tls_params" in node]

    assert len(contexts) == 4
    assert all(set(context.values()) == {"TLSv1_3"} for context in contexts)


def test_sessions_are_never_resumed(files):
    """C-06: a resumed session reports its certificate as not validated."""
    for listener, _ in managers(files):
        context = listener["filter_chains"][0]["transport_socket"]["typed_config"]
        assert context["disable_stateless_session_resumption"] is True
        assert context["disable_stateful_session_resumption"] is True


def test_partner_plane_alone_demands_a_certificate_of_the_trust_store(files):
    context = {
        item["name"]: item["filter_chains"][0]["transport_socket"]["typed_config"] for item, _ in managers(files)
    }

    assert context["partner"]["require_client_certificate"] is True
    trust = context["partner"]["common_tls_context"]["validation_context"]["trusted_ca"]
    assert trust == {"filename": "/etc/wardgate/pki/trust.pem"}
    assert "require_client_certificate" not in context["public"]


def test_proxy_protocol_is_read_only_where_the_plane_asks_and_only_in_version_2(files):
    names = [item["name"] for listener, _ in managers(files) for item in listener["listener_filters"]]
    assert "envoy.filters.listener.proxy_protocol" not in names

    asked = compile_envoy(load_example({"PROXY_PROTOCOL": "true"}))
    first = [listener["listener_filters"][0] for listener, _ in managers(asked)]
    assert [item["name"] for item in first] == ["envoy.filters.listener.proxy_protocol"] * 2
    assert first[0]["typed_config"]["disallowed_versions"] == ["V1"]


def test_every_route_asks_the_sidecar_under_its_own_id(files):
    """DESIGN idea 3: no route is labelled twice, none is left out, none is switched off."""
    document = load_example()
    for plane in document.planes:
        ids = [route.id for route in document.routes if route.plane == plane]
        found = routes(files, plane)
        assert [name for name in found if "." not in name] == ids
        for name, route in found.items():
            settings = route["typed_per_filter_config"][AUTHORITY]
            assert settings["check_settings"]["context_extensions"] == {"wardgate.route": name.partition(".")[0]}
    assert not any("disabled" in node and AUTHORITY in str(node.get("@type")) for node in walk(files))


def test_authorisation_fails_closed_and_never_chooses_the_route_again(files):
    """H-18: nothing clears the route cache, neither by wish nor by default."""
    for _, manager in managers(files):
        settings = http_filters(manager)[AUTHORITY]["typed_config"]
        assert "failure_mode_allow" not in settings
        assert settings["status_on_error"] == {"code": "ServiceUnavailable"}
        assert settings["grpc_service"]["timeout"] == "0.250s"
        assert all(settings[key] for key in ("include_peer_certificate", "encode_raw_headers", "validate_mutations"))
        processor = http_filters(manager)["envoy.filters.http.ext_proc"]
        assert processor["typed_config"]["route_cache_action"] == "RETAIN"
        assert processor["disabled"] is True
        assert "failure_mode_allow" not in processor["typed_config"]
    assert not any(node.get("clear_route_cache") for node in walk(files))


def test_preflights_are_answered_before_and_bodies_read_after_the_decision(files):
    for _, manager in managers(files):
        names = [name.rpartition(".")[2] for name in http_filters(manager)]
        assert names == [
            "cors",
            "rbac",
            "ext_authz",
            "places",
            "buffer",
            "body",
            "lua",
            "ext_proc",
            "grpc_json_transcoder",
            "router",
        ]


def test_no_route_matches_on_what_the_sidecar_or_a_filter_can_change(files):
    """H-18: routes are told apart by path, method and host alone here."""
    seen = {
        header["name"]
        for plane in ("partner", "public")
        for route in routes(files, plane).values()
        for header in route["match"].get("headers", [])
    }

    assert seen <= {":method", "origin", "access-control-request-method"}


def test_identity_headers_go_before_any_filter_reads_them(files):
    for _, manager in managers(files):
        (early,) = manager["early_header_mutation_extensions"]
        mutations = early["typed_config"]["mutations"]
        removed = {item["remove"] for item in mutations if "remove" in item}
        families = {item["remove_on_match"]["key_matcher"]["prefix"] for item in mutations if "remove_on_match" in item}
        assert removed >= {
            "forwarded",
            "x-real-ip",
            "x-user-roles",
            "x-tenant-id",
            "x-verified-caller-context",
            "client-cert",
            "grpc-timeout",
        }
        assert families == {"x-authenticated-", "x-envoy-", "x-verified-", "x-forwarded-"}


def test_trusted_hops_keep_the_address_that_they_report(tmp_path):
    text = MINIMAL.replace("credentials: [none]", "credentials: [none], trusted_hops: 2")
    ((_, manager),) = managers(compile_envoy(load_text(tmp_path, text)))

    assert manager["xff_num_trusted_hops"] == 2
    (early,) = manager["early_header_mutation_extensions"]
    removed = {item.get("remove") for item in early["typed_config"]["mutations"]}
    assert "x-forwarded-host" in removed
    assert "x-forwarded-for" not in removed
    assert "x-forwarded-" not in str(early["typed_config"]["mutations"][:3])


def test_ambiguous_requests_are_refused_and_hosts_are_canonical(files):
    """H-16 and the path rules of issue 2."""
    for _, manager in managers(files):
        assert manager["normalize_path"] is True
        assert manager["merge_slashes"] is True
        assert manager["path_with_escaped_slashes_action"] == "REJECT_REQUEST"
        assert manager["common_http_protocol_options"]["headers_with_underscores_action"] == "REJECT_REQUEST"
        assert manager["strip_any_host_port"] is True
        assert manager["strip_trailing_host_dot"] is True
        assert manager["use_remote_address"] is True
        assert manager["always_set_request_id_in_response"] is True
        assert "preserve_external_request_id" not in manager
        # SANITIZE is the zero value, which is not printed.
        assert "forward_client_cert_details" not in manager


def test_unknown_host_falls_into_no_default(tmp_path):
    """H-16: a plane that names its hosts has no other."""
    text = MINIMAL.replace('listen: "127.0.0.1:8080"', 'listen: "127.0.0.1:8080", hosts: [api.example]')
    (configuration,) = compile_envoy(load_text(tmp_path, text))["rds-public.yaml"]["resources"]

    assert [host["domains"] for host in configuration["virtual_hosts"]] == [["api.example"]]


def test_only_a_safe_request_is_sent_again_and_only_where_no_connection_was_made(files):
    """M-06 and INV-05: one more try of a GET on connect-failure, never another one of a POST."""
    found = routes(files, "partner")
    for name in ("accounts-list", "account", "transactions", "payment", "funds"):
        assert found[name]["route"]["retry_policy"] == {"retry_on": "connect-failure", "num_retries": 1}
        assert found[name]["route"]["timeout"] == "2.510s"  # 2,500 ms and a tick of the coarse clock
    for name in ("payment-initiate", "funds-confirm", "transactions-watch"):
        assert "retry_policy" not in found[name]["route"]


def test_wrong_method_is_told_which_ones_there_are(files):
    wrong = routes(files, "partner")["accounts-list.method"]

    assert wrong["direct_response"] == {"status": 405}
    assert wrong["response_headers_to_add"][0]["header"] == {"key": "allow", "value": "GET"}


def test_no_direct_answer_replaces_a_decision(files):
    """Only the 405 of a known path is answered by Envoy itself; there is no catch-all."""
    for plane in ("partner", "public"):
        for name, route in routes(files, plane).items():
            assert ("direct_response" in route) == name.endswith(".method")
            assert route["match"].get("prefix") != "/"


def test_body_limits_hold_for_announced_and_for_read_bodies(files):
    for _, manager in managers(files):
        filters = http_filters(manager)
        assert filters["envoy.filters.http.buffer"]["disabled"] is True
        deny = filters["envoy.filters.http.rbac"]["typed_config"]["rules"]
        assert deny["action"] == "DENY"
        for rules in (deny, filters["wardgate.body"]["typed_config"]["rules"]):
            announced = rules["policies"]["body-too-large"]["permissions"][0]["header"]
            assert announced["range_match"]["start"] == str((10 << 20) + 1)
    for plane in ("partner", "public"):
        for name, route in routes(files, plane).items():
            own = route["typed_per_filter_config"].get("envoy.filters.http.buffer")
            taken = not name.endswith((".method", ".preflight", "-watch"))
            assert (own and own["buffer"]["max_request_bytes"]) == (10 << 20 if taken else None)


def test_transcoder_is_bound_to_the_route_and_refuses_what_it_does_not_know(files):
    settings = routes(files, "partner")["accounts-list"]["typed_per_filter_config"][
        "envoy.filters.http.grpc_json_transcoder"
    ]

    assert settings["match_incoming_request_route"] is True
    assert settings["request_validation_options"]["reject_unknown_method"] is True
    assert settings["request_validation_options"]["reject_unknown_query_parameters"] is True
    assert settings["services"] == ["openbanking.ledger.v1.AccountLedger", "openbanking.ledger.v1.OpenData"]
    assert "ignore_unknown_query_parameters" not in settings


def test_access_log_names_neither_path_nor_headers_that_hold_credentials(files):
    """P-06: a credential in the path or the query is as secret as one in a header."""
    for _, manager in managers(files):
        (log,) = manager["access_log"]
        fields = log["typed_config"]["log_format"]["json_format"].values()
        assert not any("PATH" in str(field).upper() or "AUTHORIZATION" in str(field) for field in fields)


def test_what_the_sidecar_answered_is_the_first_mapper_and_changes_nothing(files):
    for _, manager in managers(files):
        keep, *others = manager["local_reply_config"]["mappers"]
        assert keep.keys() == {"filter"}
        assert "ext_authz_denied" in keep["filter"]["extension_filter"]["typed_config"]["expression"]
        for mapper in others:
            assert mapper["body_format_override"]["content_type"] == "application/problem+json"
            if mapper["status_code"] == 503 and "overload" not in str(mapper["filter"]):
                assert mapper["headers_to_add"][0]["header"] == {"key": "retry-after", "value": "5"}


STREAMS = """\
gateway: streams
sidecar: {address: "unix:/tmp/w.sock"}
planes: {public: {listen: "127.0.0.1:8080", credentials: [none], anonymous_tier: guests}}
tiers:
  guests: {}
  members: {limits: {streams: {rate: 5 concurrent, per: [client]}}}
upstreams: {web: {endpoints: ["127.0.0.1:9000"]}}
routes:
  - {id: own, plane: public, match: {path: /own}, upstream: web, tier_limits: false,
     limits: {own: {rate: 1 concurrent, per: [address]}}}
  - {id: tiered, plane: public, match: {path: /tiered}, upstream: web}
  - {id: free, plane: public, match: {path: /free}, upstream: web, tier_limits: false}
"""


def test_places_are_kept_only_where_a_limit_of_places_can_be_met(tmp_path):
    """The filter is there for every route, so that the first such limit changes no listener and cuts no stream."""
    files = compile_envoy(load_text(tmp_path, STREAMS), tmp_path)
    kept = {id_ for id_, route in routes(files, "public").items() if PLACES in route["typed_per_filter_config"]}
    assert kept == {"own", "tiered"}
    for _, manager in managers(files):
        places = http_filters(manager)[PLACES]
        assert places["disabled"] is True
        # the request was decided on before: a sidecar that restarts must not end the streams of a fleet
        assert places["typed_config"]["failure_mode_allow"] is True


def test_answers_of_a_plane_are_cleaned_by_its_first_filter_and_percent_signs_are_no_commands(tmp_path):
    text = MINIMAL.replace(
        "credentials: [none]",
        "credentials: [none], responses: {strip: [x-powered-by, x-internal-*], set: {x-part: 100% mine}}",
    )
    ((_, manager),) = managers(compile_envoy(load_text(tmp_path, text)))
    first = manager["http_filters"][0]

    assert first["name"] == "envoy.filters.http.header_mutation"
    exact, family, field = first["typed_config"]["mutations"]["response_mutations"]
    assert exact == {"remove": "x-powered-by"}
    assert family["remove_on_match"]["key_matcher"] == {"prefix": "x-internal-", "ignore_case": True}
    assert field["append"]["header"] == {"key": "x-part", "value": "100%% mine"}


def test_hygiene_of_a_route_needs_no_sidecar_unless_it_writes_documents(tmp_path):
    for problems, expected in ((False, "envoy.filters.http.header_mutation"), (True, "envoy.filters.http.ext_proc")):
        text = MINIMAL.replace("upstream: web}", f"upstream: web, responses: {{problems: {problems}, strip: [x-a]}}}}")
        settings = routes(compile_envoy(load_text(tmp_path, text)), "public")["home"]["typed_per_filter_config"]
        assert expected in settings
        assert len({"envoy.filters.http.header_mutation", "envoy.filters.http.ext_proc"} & settings.keys()) == 1
