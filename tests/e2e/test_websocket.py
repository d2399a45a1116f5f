"""WebSockets through Envoy: decided on like any request, for routes that take them, and only for those."""

import json
import ssl
import time
from contextlib import ExitStack, contextmanager

import pytest

from tests.e2e.stage import Stage, bearer
from tests.e2e.test_wealth import UPSTREAMS

PATH = "/api/v1/markets/stream/ticks"


@pytest.fixture(scope="module")
def stage():
    limits = "    timeout: 0s\n    idle_timeout: 60s\n"
    taken = (limits, f"    websocket: true\n{limits}")
    few = ("5 concurrent for 1min", "2 concurrent for 1min")
    running = Stage("wealth", dict.fromkeys(UPSTREAMS, "SERVICES"), taken, few).start("APP_PORT")
    yield running
    running.stop()


class Link:
    """One WebSocket, or the refusal of one; texts only (RFC 6455 section 5.2, the mask being zero)."""

    def __init__(self, socket):
        self.socket = socket
        self.stream = socket.makefile("rb")
        self.status = int(self.stream.readline().split()[1])
        while self.stream.readline() != b"\r\n":
            pass

    def say(self, text):
        data = text.encode()
        size = bytes((0x80 | len(data),)) if len(data) < 126 else b"\xff" + len(data).to_bytes(8, "big")
        self.socket.sendall(b"\x81" + size + b"\0\0\0\0" + data)

    def hear(self):
        size = self.stream.read(2)[1]
        if size >= 126:
            size = int.from_bytes(self.stream.read(2 if size == 126 else 8), "big")
        return self.stream.read(size).decode()


@contextmanager
def opened(stage, path=PATH, **claims):
    """Ask for a WebSocket; it ends with the block."""
    identity = {"iss": "https://identity.byld.example", "aud": "https://api.byld.example"}
    fields = {
        "host": "api.byld.example",
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        **(bearer(**identity, **claims) if claims else {}),
    }
    context = ssl.create_default_context(cafile=str(stage.folder / "pki" / "edge-ca.pem"))
    context.check_hostname = False
    with stage.connect() as plain, context.wrap_socket(plain) as link:
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        link.sendall(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
        made = Link(link)
        with made.stream:
            yield made


def test_websocket_opens_for_a_caller_who_may_and_the_service_learns_who(stage):
    with opened(stage, sub="user-ws-1") as link:
        assert link.status == 101
        told = json.loads(link.hear())
        assert told["x-user-id"] == "user-ws-1"
        assert "authorization" not in told
        for said in ("one", "two", "x" * 200_000):
            link.say(said)
            assert link.hear() == said


def test_websocket_is_refused_to_strangers(stage):
    with opened(stage) as link:
        assert link.status == 401


def test_route_that_takes_none_refuses_an_upgrade_and_asks_no_service(stage):
    with opened(stage, "/api/v1/markets/quotes", sub="user-ws-2") as link:
        assert 400 <= link.status < 500
    assert stage.services.asked["/api/v1/markets/quotes"] == 0
    assert stage.ask("/api/v1/markets/quotes", bearer_of("user-ws-2")).status == 200


def bearer_of(user):
    return bearer(sub=user, iss="https://identity.byld.example", aud="https://api.byld.example")


def test_websockets_are_counted_while_they_are_open(stage):
    with ExitStack() as links:
        with opened(stage, sub="user-ws-3") as first:
            assert first.status == links.enter_context(opened(stage, sub="user-ws-3")).status == 101
            with opened(stage, sub="user-ws-3") as third:
                assert third.status == 429
        end = time.monotonic() + 10
        while (status := links.enter_context(opened(stage, sub="user-ws-3")).status) != 101:
            assert (status, time.monotonic() < end) == (429, True)
            time.sleep(0.02)
