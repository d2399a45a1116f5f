"""Behind a load balancer: the client's address comes from PROXY protocol version 2 and from nowhere else."""

import json
import socket
import ssl
import struct

import pytest

from tests.policy.build import read_answer, run_world

pytestmark = pytest.mark.e2e

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    pytest.importorskip("envoy")
    with run_world(tmp_path_factory.mktemp("p"), PROXY_PROTOCOL="true") as running:
        yield running


def ask(world, preface):
    context = ssl.create_default_context(cafile=world.folder / "pki" / "edge-ca.pem")
    with socket.create_connection(("127.0.0.1", world.public), timeout=10) as plain:
        plain.sendall(preface)
        with context.wrap_socket(plain, server_hostname="localhost") as secure:
            lines = ("GET /v3/open-data/products HTTP/1.1", "host: a", "x-forwarded-for: 9.9.9.9", "connection: close")
            secure.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode())
            return read_answer(b"".join(iter(lambda: secure.recv(65536), b"")))


def version_2(address):
    body = socket.inet_aton(address) + socket.inet_aton("192.0.2.1") + struct.pack("!HH", 4711, 443)
    return SIGNATURE + bytes([0x21, 0x11]) + struct.pack("!H", len(body)) + body


def test_address_is_the_one_that_the_balancer_saw(world):
    status, _, body = ask(world, version_2("198.51.100.7"))

    assert (status, json.loads(body)) == (200, {"products": []})
    seen = world.sidecar.checks[-1].attributes
    assert seen.source.address.socket_address.address == "198.51.100.7"
    assert "9.9.9.9" not in str(seen.request.http)


@pytest.mark.parametrize("preface", [b"", b"PROXY TCP4 198.51.100.7 192.0.2.1 4711 443\r\n"], ids=["none", "version 1"])
def test_connection_without_version_2_is_closed_before_tls(world, preface):
    hello = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost").do_handshake()
    with socket.create_connection(("127.0.0.1", world.public), timeout=10) as plain:
        plain.sendall(preface + hello.read())
        try:
            answer = plain.recv(1)
        except ConnectionResetError:
            answer = b""

    assert answer == b""
