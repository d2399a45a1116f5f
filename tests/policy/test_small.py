"""What a small document does on real Envoy, where the open-banking one has no occasion for it."""

import json
import time

import pytest

from pb import ext_authz_pb2
from tests.policy.small import run_small

pytestmark = pytest.mark.e2e

ROUTES = """\
limits: {body: 2MiB}
routes:
  - {id: tight, plane: public, match: {path: /tight, methods: [POST]}, upstream: web, body: 10kB}
  - {id: wide, plane: public, match: {path: /wide, methods: [POST]}, upstream: web}
  - {id: root, plane: public, match: {prefix: /strip, methods: [GET]}, upstream: web, rewrite: /}
  - {id: folder, plane: public, match: {prefix: /a.b/, methods: [GET]}, upstream: web, rewrite: /new/}
  - {id: page, plane: public, match: {path: /page, methods: [GET]}, upstream: web, rewrite: /new/page}
  - {id: read, plane: public, match: {path: /c, methods: [GET]}, upstream: web, cors: {origins: [https://one.example]}}
  - {id: write, plane: public, match: {path: /c, methods: [POST], headers: {x-version: "2"}}, upstream: web,
     cors: {origins: [https://two.example], methods: [POST]}}
  - {id: open, plane: public, match: {path: /open, methods: [GET]}, upstream: web, cors: {origins: ["*"]}}
  - {id: rest, plane: public, match: {prefix: /c}, upstream: web}
  - {id: all, plane: public, match: {prefix: /, methods: [GET]}, upstream: web, rewrite: /v2}
  - {id: stream, plane: public, match: {path: /stream, methods: [POST]}, upstream: web, stream: true}
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    pytest.importorskip("envoy")
    with run_small(tmp_path_factory.mktemp("s"), ROUTES) as running:
        yield running


@pytest.fixture(autouse=True)
def calm(small):
    yield
    small.sidecar.answer = None


def allow_late(_request):
    time.sleep(0.1)
    response = ext_authz_pb2.CheckResponse()
    response.ok_response.SetInParent()
    return response


def pieces(size):
    """Send a body of which nobody knows the length."""
    return iter([b"x" * 1000] * (size // 1000))


@pytest.mark.parametrize("size", [20_000, 900_000, 1_500_000, 3_000_000])
def test_body_without_a_length_is_refused_though_it_came_before_the_decision(small, size):
    small.sidecar.answer = allow_late
    status, _, body = small.ask("POST", "/tight", {"transfer-encoding": "chunked"}, pieces(size))

    assert (status, json.loads(body)["type"]) == (413, "urn:problem-type:wardgate:request-too-large")


@pytest.mark.parametrize(("path", "size"), [("/tight", 10_000), ("/wide", 1_900_000), ("/stream", 10_000)])
def test_body_without_a_length_arrives_whole_within_its_limit(small, path, size):
    small.sidecar.answer = allow_late
    status, _, body = small.ask("POST", path, {"transfer-encoding": "chunked"}, pieces(size))

    assert (status, json.loads(body)["length"]) == (200, size if path != "/stream" else 0)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/strip", "/"),
        ("/strip/", "/"),
        ("/strip/x?y=/strip/", "/x?y=/strip/"),
        ("/stripped/x", "/v2/stripped/x"),
        ("/a.b", "/new"),
        ("/a.b/x", "/new/x"),
        ("/a.b/", "/new/"),
        ("/page?x=1", "/new/page?x=1"),
        ("/orders", "/v2/orders"),
        ("/", "/v2/"),
    ],
)
def test_rewrite_replaces_whole_segments(small, path, target):
    assert small.target(path) == target


def preflight(origin, method):
    return {"origin": origin, "access-control-request-method": method}


@pytest.mark.parametrize(
    ("path", "origin", "method"),
    [
        ("/c", "https://one.example", "GET"),
        ("/c", "https://two.example", "POST"),
        ("/open", "https://anybody.example:8443", "GET"),
        ("/open", "null", "GET"),
    ],
)
def test_preflight_is_answered_by_the_rules_of_the_route_that_it_is_for(small, path, origin, method):
    checks = len(small.sidecar.checks)
    status, headers, _ = small.ask("OPTIONS", path, preflight(origin, method))

    assert (status, headers.get("access-control-allow-origin")) == (200, origin)
    assert len(small.sidecar.checks) == checks
    assert small.ask("GET", "/open", {"origin": origin})[1]["access-control-allow-origin"] == origin


@pytest.mark.parametrize(("origin", "method"), [("https://one.example", "POST"), ("https://two.example", "GET")])
def test_preflight_of_another_method_or_origin_is_a_request_like_others(small, origin, method):
    checks = len(small.sidecar.checks)
    _, headers, _ = small.ask("OPTIONS", "/c", preflight(origin, method))

    assert "access-control-allow-origin" not in headers
    assert len(small.sidecar.checks) == checks + 1
