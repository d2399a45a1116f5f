"""Fetching a key set from a real server that does everything wrong that a server can do."""

import asyncio
import gzip
import ssl
import zlib
from datetime import UTC, datetime

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from authz.download import BODY_LIMIT, DownloadFailed, download_keys, is_safe, open_session, read_freshness
from authz.refresh import KeyRefresher
from authz.token import Claims, verify_token
from model.instant import SECOND
from tests.authz.pki import DAY, issue, name_of
from tests.authz.tokens import NOW, issuer, jwk, key_set, token

KEYS = key_set(jwk("ed"))
PLAIN = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


class Server:
    """One path whose handler a test sets; counts what it is asked."""

    def __init__(self):
        self.asked = []
        self.handler = lambda _request: web.Response(body=KEYS)
        self.url = ""

    async def handle(self, request):
        self.asked.append((request.path, dict(request.headers)))
        answer = self.handler(request)
        return await answer if asyncio.iscoroutine(answer) else answer


@pytest.fixture
async def server():
    made = Server()
    app = web.Application()
    app.router.add_get("/{tail:.*}", made.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/keys"
    yield made
    await runner.cleanup()


@pytest.fixture
async def session():
    async with open_session() as made:
        yield made


async def failure(session, url, **options):
    with pytest.raises(DownloadFailed) as caught:
        await download_keys(session, url, **options)
    return str(caught.value)


async def test_a_key_set_comes_with_how_long_it_is_fresh(server, session):
    server.handler = lambda _: web.Response(body=KEYS, headers={"Cache-Control": "public, max-age=60"})
    download = await download_keys(session, server.url)

    assert (download.body, download.fresh_for) == (KEYS, 60)


@pytest.mark.parametrize("status", [201, 204, 304, 401, 404, 500, 503])
async def test_any_status_but_200_is_a_failure(server, session, status):
    server.handler = lambda _: web.Response(status=status)

    assert await failure(session, server.url) == f"status {status}"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(server, session, status):
    """Pitfall 5: not even to the same host."""
    server.handler = lambda _: web.Response(status=status, headers={"Location": server.url + "/elsewhere"})

    assert await failure(session, server.url) == f"status {status}"
    assert [path for path, _ in server.asked] == ["/keys"]


async def test_a_body_beyond_the_limit_is_cut_off(server, session):
    async def endless(request):
        response = web.StreamResponse()
        await response.prepare(request)
        # The reader hangs up long before the end, which the writer sees as a lost connection.
        try:
            for _ in range(10_000):
                await response.write(b" " * 65_536)
        except ConnectionError:
            pass
        return response

    server.handler = endless
    assert "more than" in await failure(session, server.url)


async def test_a_body_at_the_limit_is_taken(server, session):
    server.handler = lambda _: web.Response(body=b" " * BODY_LIMIT)

    assert len((await download_keys(session, server.url)).body) == BODY_LIMIT


@pytest.mark.parametrize("coding", ["gzip", "deflate", "x-gzip", "GZIP"])
async def test_a_packed_body_is_unpacked(server, session, coding):
    packed = zlib.compress(KEYS) if coding == "deflate" else gzip.compress(KEYS)
    server.handler = lambda _: web.Response(body=packed, headers={"Content-Encoding": coding})

    assert (await download_keys(session, server.url)).body == KEYS


async def test_a_packed_body_that_swells_is_refused(server, session):
    """Pitfall 50: 100 MB of blanks in 100 KB."""
    bomb = gzip.compress(b" " * 100_000_000)
    server.handler = lambda _: web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    assert len(bomb) < BODY_LIMIT
    assert "unpacked" in await failure(session, server.url)


@pytest.mark.parametrize(
    ("coding", "body"),
    [("gzip", b"not gzip at all"), ("gzip", gzip.compress(KEYS)[:-9]), ("br", KEYS), ("gzip, gzip", KEYS)],
)
async def test_a_body_that_cannot_be_unpacked_is_a_failure(server, session, coding, body):
    server.handler = lambda _: web.Response(body=body, headers={"Content-Encoding": coding})

    assert await failure(session, server.url)


async def test_a_server_that_drips_is_left_at_the_deadline(server, session):
    """Slow loris: an octet now and then keeps no connection alive beyond the whole exchange's deadline."""
    never = asyncio.Event()

    async def drip(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{")
        await never.wait()
        return response

    server.handler = drip
    assert "TimeoutError" in await failure(session, server.url, deadline=0.05)
    never.set()


async def test_a_server_whose_certificate_nobody_vouches_for_is_not_believed(session, tmp_path):
    """Keys from an https URL are as good as the check of its certificate: it is on, and asks for the host's name."""
    now = datetime.now(UTC)
    name = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    issued = issue(name_of("localhost"), start=now - DAY, end=now + DAY, extensions=[(name, False)])
    pair = tmp_path / "server.pem"
    pair.write_text(issued.pem + issued.key.private_bytes(*PLAIN).decode())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert "certificate verify failed" in await failure(session, f"https://localhost:{port}/keys")


async def test_a_closed_port_is_a_failure(session, unused_tcp_port_of):
    assert await failure(session, f"http://127.0.0.1:{unused_tcp_port_of}/keys")


@pytest.fixture
async def unused_tcp_port_of():
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


async def test_a_body_cut_short_is_a_failure(server, session):
    async def cut(request):
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(KEYS[:10])
        request.transport.close()
        return response

    server.handler = cut
    assert await failure(session, server.url)


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://id.example/keys", True),
        ("https://127.0.0.1:8443/keys", True),
        ("http://127.0.0.1:8080/keys", True),
        ("http://[::1]:8080/keys", True),
        ("http://localhost/keys", True),
        ("file:///etc/wardgate/keys.json", True),
        ("http://id.example/keys", False),
        ("http://localhost.example/keys", False),
        ("http://127.0.0.1.example/keys", False),
        ("http://127.0.0.1@id.example/keys", False),
        ("http://10.0.0.1/keys", False),
        ("http://169.254.169.254/keys", False),
        ("file://server/share/keys.json", False),
        ("ftp://id.example/keys", False),
        ("data:application/json,{}", False),
        ("https:///keys", False),
        ("//id.example/keys", False),
        ("http://[::1/keys", False),
        ("", False),
    ],
)
def test_keys_are_taken_from_https_loopback_and_files_only(url, safe):
    """Pitfall 5."""
    assert is_safe(url) is safe


async def test_an_unsafe_url_is_never_asked(session):
    assert "https" in await failure(session, "http://id.example/keys")


async def test_a_file_is_read_for_sites_without_a_network(session, tmp_path):
    path = tmp_path / "keys of ours.json"
    path.write_bytes(KEYS)

    assert (await download_keys(session, path.as_uri())).body == KEYS
    assert "FileNotFoundError" in await failure(session, (tmp_path / "none").as_uri())
    path.write_bytes(b" " * (BODY_LIMIT + 1))
    assert "more than" in await failure(session, path.as_uri())


@pytest.mark.parametrize(
    ("control", "seconds"),
    [
        ("", None),
        ("public", None),
        ("max-age=60", 60),
        ("private, Max-Age=60 , must-revalidate", 60),
        ('max-age="60"', 60),
        ("max-age=0", 0),
        ("no-store", 0),
        ("max-age=60, no-cache", 0),
        ("s-maxage=60", None),
        ("max-age=-5", None),
        ("max-age=x", None),
        ("max-age=99999999999999999999", 9_999_999_999),
    ],
)
def test_freshness_is_read_out_of_cache_control(control, seconds):
    assert read_freshness(control) == seconds


async def test_the_refresher_serves_keys_from_a_real_server_through_failure_and_rotation(server):
    """J-09, J-10: load, fail, keep serving, then take up a new key for the first token that names it."""
    now = NOW
    refresher = KeyRefresher(clock=lambda: now, random=lambda: 0.5)
    await refresher.apply([issuer(jwks=server.url, cooldown=30 * SECOND)])
    assert isinstance(verify_token(token(), refresher.trust, now), Claims)

    server.handler = lambda _: web.Response(status=500)
    assert not await refresher.want("idp", "rsa", patience=5)
    assert isinstance(verify_token(token(), refresher.trust, now), Claims)

    server.handler = lambda _: web.Response(body=key_set(jwk("ed"), jwk("rsa")))
    now += 30 * SECOND
    assert await refresher.want("idp", "rsa", patience=5)
    assert isinstance(verify_token(token("rsa"), refresher.trust, now), Claims)
    assert len(server.asked) == 3
    await refresher.close()
