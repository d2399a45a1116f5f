"""TLS at the edge: 1.3 alone, the same decision on every connection, resumed or not (bug report C-06)."""

import asyncio
import socket
import ssl

import pytest

from demo.cases import ALPHA
from demo.client import Refused, connect, open_context, write_proxy
from demo.settings import EDGE_NAME
from demo.world import Ask


def exchange(world, context, session, token):
    """Make one request on a new connection that offers a session; its status line, the session, whether it resumed."""
    host, port = world.settings.address("PARTNER")
    with socket.create_connection((host, port), timeout=10) as plain:
        plain.sendall(write_proxy("198.51.100.9", port))
        with context.wrap_socket(plain, server_hostname=EDGE_NAME, session=session) as secure:
            request = f"GET /v3/accounts/current HTTP/1.1\r\nHost: {EDGE_NAME}\r\nAuthorization: Bearer {token}\r\n\r\n"
            secure.sendall(request.encode())
            return secure.recv(65536).split(b"\r\n")[0], secure.session, secure.session_reused


async def test_twenty_reconnects_with_a_session_are_decided_alike(world):
    token = await world.token(ALPHA)
    context, session, answers = open_context(world.settings.pki, "fintech-alpha"), None, []
    for _ in range(20):
        answer, session, _ = await asyncio.to_thread(exchange, world, context, session, token)
        answers.append(answer)
    assert {b"HTTP/1.1 200 OK"} == set(answers)


async def test_tls_below_1_3_gets_no_handshake(world):
    endpoint = world.endpoint("fintech-alpha")
    endpoint.context.minimum_version = ssl.TLSVersion.TLSv1_2
    endpoint.context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(Refused, match="handshake"):
        async with connect(endpoint):
            pass


async def test_a_connection_without_a_proxy_header_ends_where_one_is_expected(world):
    endpoint = world.endpoint("fintech-alpha")
    bare = type(endpoint)(endpoint.host, endpoint.port, endpoint.context, None)
    with pytest.raises(Refused):
        async with connect(bare) as connection:
            await connection.send("GET", "/v3/accounts/current")


async def test_a_certificate_for_another_purpose_gets_no_handshake(world):
    with pytest.raises(Refused):
        await world.ask(Ask("GET", "/v3/accounts/current", ALPHA, identity="server"))


async def test_http_2_is_offered_and_spoken(world):
    context = open_context(world.settings.pki, "fintech-alpha")
    context.set_alpn_protocols(["h2", "http/1.1"])
    host, port = world.settings.address("PARTNER")

    def negotiate():
        with socket.create_connection((host, port), timeout=10) as plain:
            plain.sendall(write_proxy("198.51.100.9", port))
            with context.wrap_socket(plain, server_hostname=EDGE_NAME) as secure:
                return secure.selected_alpn_protocol()

    assert await asyncio.to_thread(negotiate) == "h2"
