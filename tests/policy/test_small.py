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
