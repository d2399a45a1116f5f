"""The compiled open-banking gateway on real Envoy, between a fake sidecar and fake backends."""

import copy
import json
import shutil
import threading
import time
import uuid

import grpc
import pytest

from pb import ext_authz_pb2
from policy.document import load_document
from policy.envoy import compile_envoy
from policy.output import write_files
from tests.policy.build import EXAMPLE, deny, run_world

pytestmark = pytest.mark.e2e

PROBLEM = "application/problem+json"
JSON = ("-H", "content-type: application/json")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    pytest.importorskip("envoy")
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    with run_world(tmp_path_factory.mktemp("w")) as running:
        yield running


@pytest.fixture(autouse=True)
def calm(world):
    yield
    world.sidecar.answer = None
    world.backend.act = None


def problem(answer, status, slug):
    """Assert that an answer is a problem document of Envoy's making, and give its headers."""
    code, headers, body = answer
    document = json.loads(body)
    assert (code, headers["content-type"], document["status"]) == (status, PROBLEM, status)
    assert document["type"].endswith(f":{slug}"), document
    assert uuid.UUID(document["request_id"])
    assert headers.get("x-request-id") in (None, document["request_id"])
    return headers


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_query_parameters_arrive_as_fields(world, version):
    path = "/v3/accounts/a1/transactions?page_size=3&pending=true&category=x&category=y&reference.currency=EUR"
    status, headers, _ = world.curl(path, version)

    method, request, _ = world.backend.calls[-1]
    assert (status, headers["content-type"]) == (200, "application/json")
    assert method == "/openbanking.ledger.v1.AccountLedger/ListTransactions"
    assert (request.account_id, request.page_size, request.pending) == ("a1", 3, True)
    assert list(request.category) == ["x", "y"]
    assert request.reference.currency == "EUR"


def test_body_fields_arrive_by_either_name(world):
    body = {"endToEndId": "e-1", "creditor": {"name": "n", "iban": "i"}, "instructed_amount": {"amount": "1.00"}}
    status, _, _ = world.curl("/v3/payments", *JSON, "-d", json.dumps(body))

    _, request, _ = world.backend.calls[-1]
    assert status == 200
    assert (request.end_to_end_id, request.creditor.iban, request.instructed_amount.amount) == ("e-1", "i", "1.00")


@pytest.mark.parametrize(
    "query",
    ["page_sise=1", "page_size=abc", "page_size=1&page_size=2", "page_size=1&page%5Fsize=2", "page_size=99999999999"],
)
def test_query_that_does_not_fit_is_refused(world, query):
    """M-11: never ignored, never 404 or 500."""
    problem(world.curl(f"/v3/accounts?{query}"), 400, "request-malformed")


@pytest.mark.parametrize(
    "body",
    [
        '{"nope": 1}',
        '{"creditor": {"name": "x", "nope": {"a": [1, "}"]}}}',
        '{"end_to_end_id": "a", "end_to_end_id": "b"}',
        '{"creditor": 3}',
        '{"end_to_end_id": "a"',
        "[]",
        "end_to_end_id=a",
    ],
)
def test_body_that_does_not_fit_is_refused(world, body):
    calls = len(world.backend.calls)

    problem(world.curl("/v3/payments", *JSON, "-d", body), 400, "request-malformed")
    assert len(world.backend.calls) == calls


def test_refusal_of_a_member_names_it(world):
    _, _, body = world.curl("/v3/payments", *JSON, "-d", '{"creditor": {"nmae": "x"}}')

    assert json.loads(body)["detail"] == "unknown member nmae"


def test_forged_identity_reaches_neither_the_sidecar_nor_the_backend(world):
    """H-09, H-11, C-10: what only the gateway may say is gone before ext_authz, and what it says arrives."""
    mark = uuid.uuid4().hex
    names = [
        *("x-authenticated-subject", "X-User-Roles", "x-tenant-id", "x-verified-caller-context", "x-forwarded-for"),
        *("x-forwarded-host", "x-envoy-retry-on", "x-forwarded-client-cert", "client-cert", "x-request-id"),
    ]

    def allow(_request):
        response = ext_authz_pb2.CheckResponse()
        option = response.ok_response.headers.add()
        option.header.key, option.header.value = "x-verified-caller-context", "signed"
        return response

    world.sidecar.answer = allow
    forged = [argument for name in names for argument in ("-H", f"{name}: {mark}")]
    assert world.curl("/v3/accounts", *forged)[0] == 200

    seen = world.sidecar.checks[-1].attributes
    assert mark not in str(seen.request.http)
    assert seen.source.certificate.startswith("-----BEGIN%20CERTIFICATE")
    metadata = world.backend.calls[-1][2]
    assert mark not in str(metadata)
    assert metadata["x-verified-caller-context"] == "signed"


def test_sidecar_is_told_of_the_fields_that_it_reads_as_often_as_they_came_and_of_no_other(world):
    """H-06: two credentials are two lines, so that they can be refused; what nobody reads is not carried about."""
    sent = [("authorization", "Bearer a"), ("x-api-key", "k"), ("x-api-key", "l"), ("DPoP", "p")]
    ordinary = [("traceparent", "00-1-2-3"), ("accept-language", "de"), ("cookie", "session=1")]
    assert world.curl("/v3/accounts", *(word for one in sent + ordinary for word in ("-H", ": ".join(one))))[0] == 200

    seen = world.sidecar.checks[-1].attributes.request.http
    lines = [(line.key, line.raw_value.decode()) for line in seen.header_map.headers]
    assert [line for line in lines if line[0] != "x-request-id"] == [(name.lower(), value) for name, value in sent]
    assert [name for name, _ in lines].count("x-request-id") == 1
    assert (seen.method, seen.path, seen.host, seen.scheme) == ("GET", "/v3/accounts", seen.host, "https")


def test_query_with_a_credential_is_not_copied_into_a_header(world):
    """H-08: what the sidecar takes out of the path has left it before the transcoder copies it."""

    def allow(_request):
        response = ext_authz_pb2.CheckResponse()
        response.ok_response.query_parameters_to_remove.append("access_token")
        return response

    world.sidecar.answer = allow
    assert world.curl("/v3/accounts?access_token=SECRET&currency=EUR")[0] == 200
    _, request, metadata = world.backend.calls[-1]
    assert request.currency == "EUR"
    assert "SECRET" not in str(metadata)


def test_answer_carries_a_request_id_and_nothing_of_envoy_or_the_backend(world):
    _, headers, _ = world.curl("/v3/accounts")

    assert uuid.UUID(headers["x-request-id"])
    assert not [name for name in headers if name.startswith(("x-envoy", "grpc-"))]
    assert headers["server"] == "wardgate"


@pytest.mark.parametrize("path", ["/v3/accounts%2f1", "/v3/accounts%5c..%5c1", "/v3/accounts%00"])
def test_ambiguous_path_is_refused(world, path):
    """H-01 and H-03."""
    problem(world.curl(path), 400, "request-malformed")


@pytest.mark.parametrize("path", ["/v3//accounts", "/v3/./accounts", "/v3/x/../accounts", "/v3/%2e%2e/v3/accounts"])
def test_path_is_normalised_before_anybody_reads_it(world, path):
    assert world.curl(path)[0] == 200
    assert world.sidecar.checks[-1].attributes.request.http.path == "/v3/accounts"


def test_underscore_in_a_header_name_is_refused(world):
    problem(world.curl("/v3/accounts", "--http1.1", "-H", "x_user: 1"), 400, "request-malformed")


def test_too_many_and_too_large_headers_are_refused(world):
    many = [argument for number in range(120) for argument in ("-H", f"x-{number}: 1")]

    problem(world.curl("/v3/accounts", "--http1.1", *many), 431, "headers-too-large")
    problem(world.curl("/v3/accounts", "--http1.1", "-H", f"x: {'y' * 70_000}"), 431, "headers-too-large")


def test_long_url_is_refused_before_the_sidecar_is_asked(world):
    checks = len(world.sidecar.checks)

    problem(world.curl(f"/v3/accounts?currency={'x' * 9000}"), 414, "url-too-long")
    assert len(world.sidecar.checks) == checks


@pytest.mark.parametrize("announced", [True, False])
def test_large_body_is_refused_announced_or_not(world, tmp_path, announced):
    large = tmp_path / "large"
    large.write_bytes(b"x" * (11 << 20))
    length = [] if announced else ["-H", "transfer-encoding: chunked"]
    answer = world.curl("/v3/payments", "--http1.1", *JSON, *length, "--data-binary", f"@{large}")

    problem(answer, 413, "request-too-large")


def test_unknown_path_and_wrong_method_are_told_apart(world):
    problem(world.curl("/v3/nowhere"), 404, "route-unknown")
    headers = problem(world.curl("/v3/accounts", "-X", "DELETE"), 405, "method-refused")
    assert headers["allow"] == "GET"


def test_preflight_of_a_known_origin_is_answered_without_asking(world):
    """H-14."""
    asked = ("-X", "OPTIONS", "-H", "access-control-request-method: GET")
    path, checks = "/v3/open-data/products", len(world.sidecar.checks)
    known = world.curl(path, *asked, "-H", "origin: https://app.open-banking.example", plane="public", client=None)
    assert known[1]["access-control-allow-origin"] == "https://app.open-banking.example"
    assert len(world.sidecar.checks) == checks

    stranger = world.curl(path, *asked, "-H", "origin: https://evil.example", plane="public", client=None)
    assert "access-control-allow-origin" not in stranger[1]
    assert len(world.sidecar.checks) == checks + 1


def test_refusal_of_the_sidecar_passes_unchanged(world):
    world.sidecar.answer = deny(429, '{"tpp":1}', ("content-type", "application/json"), ("retry-after", "3"))
    status, headers, body = world.curl("/v3/accounts")

    assert (status, body) == (429, b'{"tpp":1}')
    assert (headers["content-type"], headers["retry-after"]) == ("application/json", "3")


def test_refusal_on_a_cors_plane_can_be_read_by_the_page(world):
    """H-14: without these headers the browser hides the problem document."""
    world.sidecar.answer = deny(401, "{}", ("content-type", PROBLEM))
    origin = ("-H", "origin: https://app.open-banking.example")
    status, headers, _ = world.curl("/v3/open-data/products", *origin, plane="public", client=None)

    assert status == 401
    assert headers["access-control-allow-origin"] == "https://app.open-banking.example"


def test_sidecar_that_fails_or_is_slow_is_an_outage_and_never_an_open_door(world):
    """M-01, M-02."""
    calls = len(world.backend.calls)

    def fail(_request):
        raise ValueError

    world.sidecar.answer = fail
    headers = problem(world.curl("/v3/accounts"), 503, "policy-unavailable")
    assert headers["retry-after"] == "5"

    held = threading.Event()
    world.sidecar.answer = lambda _request: held.wait(2) and None
    began = time.monotonic()
    problem(world.curl("/v3/accounts"), 503, "policy-unavailable")
    assert time.monotonic() - began < 1.5
    held.set()
    assert len(world.backend.calls) == calls


@pytest.mark.parametrize(
    ("code", "status"), [("NOT_FOUND", 404), ("PERMISSION_DENIED", 403), ("INTERNAL", 500), ("INVALID_ARGUMENT", 400)]
)
def test_grpc_error_becomes_a_problem_document(world, code, status):
    """M-12."""
    world.backend.act = lambda _request, context: context.abort(getattr(grpc.StatusCode, code), "told")
    got, headers, body = world.curl("/v3/accounts")

    assert (got, headers["content-type"], json.loads(body)["status"]) == (status, PROBLEM, status)


def test_hanging_backend_is_cut_off_in_its_budget_and_asked_once(world):
    calls, gone = len(world.backend.calls), threading.Event()

    def hang(_request, context):
        context.add_callback(gone.set)
        gone.wait(10)

    world.backend.act = hang
    began = time.monotonic()
    problem(world.curl("/v3/accounts"), 504, "upstream-timeout")
    assert 2.4 < time.monotonic() - began < 4
    assert gone.wait(5), "the stream was not cancelled"
    assert len(world.backend.calls) == calls + 1


def test_dead_backend_is_told_with_a_time_to_come_back(world):
    headers = problem(world.curl("/v3/funds/a1"), 503, "upstream-unreachable")

    assert headers["retry-after"] == "5"


def test_only_a_trusted_certificate_gets_in(world):
    checks = len(world.sidecar.checks)

    for client in ("stranger", None):
        with pytest.raises(OSError, match="curl: "):
            world.curl("/v3/accounts", client=client)
    with pytest.raises(OSError, match="curl: "):
        world.curl("/v3/accounts", "--tls-max", "1.2")
    assert len(world.sidecar.checks) == checks


def test_sidecar_that_is_away_costs_503_and_comes_back_by_itself(world):
    world.sidecar.stop()
    problem(world.curl("/v3/accounts"), 503, "policy-unavailable")

    world.sidecar.start(world.socket)
    deadline = time.monotonic() + 10
    while (status := world.curl("/v3/accounts")[0]) == 503 and time.monotonic() < deadline:
        pass
    assert status == 200


def test_changed_routes_are_taken_up_without_a_restart(world):
    """The files are exchanged by rename into the folder that Envoy watches; open connections stay."""
    directory = world.folder / "envoy"
    document = load_document(EXAMPLE, world.environment)
    files = compile_envoy(document, directory)
    changed = copy.deepcopy(files)
    (configuration,) = changed["rds-public.yaml"]["resources"]
    configuration["virtual_hosts"][0]["routes"][0]["match"]["path"] = "/v3/open-data/moved"

    def is_asked():
        """The sidecar is asked only about paths that have a route."""
        world.curl("/v3/open-data/moved", plane="public", client=None)
        return world.sidecar.checks[-1].attributes.request.http.path == "/v3/open-data/moved"

    assert not is_asked()
    assert write_files(directory, changed) == ["rds-public.yaml"]
    deadline = time.monotonic() + 10
    while not is_asked():
        assert time.monotonic() < deadline
    write_files(directory, files)
