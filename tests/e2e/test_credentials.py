"""Credentials under load, through real Envoy: keys rotate, key servers fail, revocations travel, Redis goes away.

A few seconds by default; `WARDGATE_DRILL=full` takes the lengths of issue 4 (make drills). The figures go to
build/figures/drills.json.
"""

import asyncio
import contextlib
import json
import os
import shutil
import sys
import threading
import time
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import aiohttp
import grpc.aio
import pytest
from cryptography import x509

from authz.service import METHOD
from demo.client import connect
from demo.idp import make_key, sign_token, write_claims
from demo.settings import EDGE_NAME
from demo.world import Ask, Token
from pb import ext_authz_pb2 as pb
from sidecar.__main__ import main
from tests.demo.build import until
from tests.e2e.build import Demo
from tests.sidecar.vault import Feed

pytestmark = pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server on this machine")

FULL = os.environ.get("WARDGATE_DRILL") == "full"
FIGURES = Path(__file__).parents[2] / "build" / "figures" / "drills.json"
TARGET = "/v3/accounts/current"
STALE = 30 if FULL else 4  # seconds for which keys may be used when they can no longer be fetched
FLOOD = (2000, 10.0) if FULL else (300, 1.5)  # requests, seconds
LANES = 4


def note(**figures):
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    FIGURES.write_text(json.dumps(known | figures, indent=1, sort_keys=True) + "\n")


class Front(ThreadingHTTPServer):
    """Stands before the identity provider's key set: counts who asks, and answers 500 while `broken`."""

    daemon_threads = True

    def __init__(self, upstream):
        super().__init__(("127.0.0.1", 0), Fronted)
        self.upstream = upstream
        self.fetches = 0
        self.broken = False


class Fronted(BaseHTTPRequestHandler):
    """One question to the front."""

    def do_GET(self):
        self.server.fetches += 1
        body = b"" if self.server.broken else urllib.request.urlopen(self.server.upstream, timeout=5).read()
        self.send_response(500 if self.server.broken else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words):
        """Say nothing."""


@pytest.fixture(scope="module")
def feed():
    """A Redis for the revocation feed."""
    server = Feed(Path(os.environ.get("TMPDIR", "/tmp")) / f"wg-feed-{os.getpid()}")
    server.path.parent.mkdir()
    asyncio.run(server.start())
    yield server
    server.stop()
    shutil.rmtree(server.path.parent)


@pytest.fixture(scope="module")
def running(feed):
    """A demo whose limits do not stand in the way, whose keys come through a front, and that follows the feed."""
    demo = Demo()
    front = Front(f"{demo.settings.url('IDP')}/jwks.json")
    serving = threading.Thread(target=front.serve_forever, daemon=True)
    serving.start()
    demo.edit(
        ("600/min burst 2x for 10s", "600000/min burst 2x for 10s"),
        ("jwks: ${IDP_URL:-http://127.0.0.1:8480}/jwks.json", f"jwks: http://127.0.0.1:{front.server_port}/jwks.json"),
        ("\ntiers:\n", f"\nrevocation: {{redis: '{feed.url}'}}\n\ntiers:\n"),
    )
    try:
        yield demo.start(), front
    finally:
        demo.stop()
        front.shutdown()
        front.server_close()
        serving.join()


@pytest.fixture
def demo(running):
    return running[0]


@pytest.fixture
def front(running):
    return running[1]


@contextlib.asynccontextmanager
async def load(world, seen):
    """Ask without pause over kept connections, each request with a token that was minted for it; note each status."""
    stopping = asyncio.Event()

    async def lane(number):
        async with connect(world.endpoint("fintech-alpha")) as connection:
            count = 0
            while not stopping.is_set():
                count += 1
                token = Token(expires_in=300 + number * 10_000 + count)
                seen[(await world.ask_on(connection, Ask("GET", TARGET, token))).status] += 1

    lanes = [asyncio.create_task(lane(number)) for number in range(LANES)]
    try:
        yield
    finally:
        stopping.set()
        await asyncio.gather(*lanes)


async def test_keys_rotate_under_load_without_a_refused_request(world, demo):
    """Tokens of the new key arrive before anybody has told the sidecar, and those of the old one go on."""
    seen = Counter()
    async with load(world, seen):
        await asyncio.sleep(1)
        async with aiohttp.ClientSession() as session, session.post(f"{demo.settings.url('IDP')}/rotate") as answer:
            assert answer.status == 200
        await asyncio.sleep(4 if FULL else 1.5)
    failed = sum(seen.values()) - seen[200]
    note(rotation_requests=sum(seen.values()), rotation_failed=failed)
    assert set(seen) == {200}


async def test_flood_of_random_kids_makes_no_flood_of_fetches(world, front):
    """J-07: at most one fetch a cool-down, which is 30 s here, whatever arrives."""
    if FULL:
        await asyncio.sleep(31)  # the rotation before has used up a fetch: the flood must find one to be had
    count, seconds = FLOOD
    key, before = make_key("EdDSA"), front.fetches
    claims = write_claims({"client_id": "fintech-alpha", "scope": "accounts"}, time.time())
    seen = Counter()

    async def lane(number):
        async with connect(world.endpoint("fintech-alpha")) as connection:
            for index in range(number, count, LANES):
                await asyncio.sleep(began + seconds * index / count - time.monotonic())
                fields = [("Authorization", f"Bearer {sign_token(key, 'EdDSA', f'kid-{index}', claims)}")]
                seen[(await connection.send("GET", TARGET, fields)).status] += 1

    began = time.monotonic()
    await asyncio.gather(*map(lane, range(LANES)))
    fetched = front.fetches - before
    note(jwks_fetches_under_flood=fetched, flood_requests=sum(seen.values()))
    assert set(seen) == {401}
    assert fetched <= 1


class Other:
    """One more sidecar on the same document, asked directly, as its own Envoy would."""

    def __init__(self, demo, number):
        self.path = demo.folder / f"other-{number}.sock"
        self.address = f"unix:{self.path}"
        command = [sys.executable, "-m", "sidecar", "serve", "--document", str(demo.document)]
        self.command = [*command, "--listen", self.address, "--log-level", "warning"]
        self.environment = {**os.environ, **demo.settings.environment()}
        self.pem = quote((demo.settings.pki / "fintech-alpha.pem").read_text(), safe="")

    async def start(self):
        self.process = await asyncio.create_subprocess_exec(*self.command, env=self.environment)
        await until(lambda: self.path.exists() or self.process.returncode is not None, 30)
        assert self.process.returncode is None

    async def stop(self):
        self.process.terminate()
        await self.process.wait()

    async def passes(self, token):
        request = pb.CheckRequest()
        attributes = request.attributes
        attributes.source.certificate = self.pem
        attributes.context_extensions["wardgate.route"] = "account"
        http = attributes.request.http
        http.method, http.path, http.host = "GET", TARGET, EDGE_NAME
        http.header_map.headers.add(key="authorization", raw_value=f"Bearer {token}".encode())
        async with grpc.aio.insecure_channel(self.address) as channel:
            data = await channel.unary_unary(METHOD)(request.SerializeToString(), wait_for_ready=True, timeout=20)
        return pb.CheckResponse.FromString(data).HasField("ok_response")


class Edge:
    """The demo's own sidecar, behind its Envoy."""

    def __init__(self, world):
        self.world = world

    async def passes(self, token):
        fields = (("Authorization", f"Bearer {token}"),)
        return (await self.world.ask(Ask("GET", TARGET, headers=fields))).status == 200


@pytest.fixture
async def sidecars(demo, world):
    """Three sidecars on one feed: one behind Envoy, two beside it."""
    others = [Other(demo, number) for number in range(2)]
    for other in others:
        await other.start()
    try:
        yield [Edge(world), *others]
    finally:
        for other in others:
            await other.stop()


async def command(*arguments):
    return await asyncio.to_thread(main, arguments)


async def passing(sidecar, token):
    async def passed():
        return await sidecar.passes(token)

    await until(passed, 30)


async def refusal_of(sidecar, token, since):
    """Seconds from an instant until a sidecar first refuses a token."""
    async with asyncio.timeout(30):
        while await sidecar.passes(token):
            pass
    return time.monotonic() - since


def things(demo):
    """What is revoked in turn: a token, a client and a certificate."""
    peer = x509.load_pem_x509_certificate((demo.settings.pki / "fintech-alpha.pem").read_bytes())
    return {
        "token": ("--token", "https://idp.open-banking.example", "stolen"),
        "client": ("--client", "fintech-alpha"),
        "certificate": ("--certificate", peer.issuer.rfc4514_string(), f"{peer.serial_number:x}"),
    }


@pytest.mark.timeout(240)
async def test_revocation_reaches_three_sidecars_within_a_second_and_outlives_redis(
    demo, world, sidecars, feed, capsys
):
    """Token, client and certificate; coverage is said when all hold it; Redis away, the known ones stay refused."""
    async with aiohttp.ClientSession() as session:
        order = {"client_id": "fintech-alpha", "scope": "accounts", "jti": "stolen"}
        async with session.post(f"{demo.settings.url('IDP')}/token", json=order) as answer:
            token = (await answer.json())["access_token"]
    took = []
    for what, arguments in things(demo).items():
        for sidecar in sidecars:
            await passing(sidecar, token)
        since = time.monotonic()
        work = [refusal_of(sidecar, token, since) for sidecar in sidecars]
        code, *seconds = await asyncio.gather(command("revoke", *arguments, "--redis", feed.url, "--wait"), *work)
        assert code == 0, what
        assert "held by all 3 live workers" in capsys.readouterr().out
        took.append(max(seconds))
        assert await command("revoke", *arguments, "--redis", feed.url, "--undo", "--wait") == 0
    note(revocation_s_max=round(max(took), 3), revocation_sidecars=len(sidecars))
    assert max(took) <= 1 if FULL else 5

    assert await command("revoke", *things(demo)["token"], "--redis", feed.url, "--wait") == 0
    feed.stop()
    seen = Counter()
    async with load(world, seen):
        await asyncio.sleep(2)
        passed = [await sidecar.passes(token) for sidecar in sidecars]
    note(redis_away_refused=sum(seen.values()) - seen[200], redis_away_known_revoked_passed=sum(passed))
    assert passed == [False] * 3
    assert set(seen) == {200}


@pytest.mark.timeout(180)
async def test_key_server_that_answers_500_for_the_whole_bound_costs_nobody_a_request(world, demo, front):
    """Stale keys serve within `max_stale`; past it reads pass on what was verified, the rest is told to come back."""
    demo.edit(("    audiences:", f"    refresh: 1s\n    max_stale: {STALE}s\n    audiences:"))
    before = front.fetches
    await until(lambda: front.fetches > before + 2, 20)
    known = Token(expires_in=299)
    seen = Counter()
    front.broken, broken = True, time.monotonic()
    try:
        async with load(world, seen):
            while time.monotonic() < broken + STALE - 2:
                assert (await world.ask(Ask("GET", TARGET, known))).status == 200
                await asyncio.sleep(0.1)
        note(
            stale_keys_s=STALE - 2,
            stale_keys_requests=sum(seen.values()),
            stale_keys_failed=sum(seen.values()) - seen[200],
        )
        assert set(seen) == {200}

        async def over():
            return (await world.ask(Ask("GET", TARGET, Token(expires_in=int(time.monotonic()) + 100)))).status == 503

        await until(over, STALE + 20)
        assert (await world.ask(Ask("GET", TARGET, known))).status == 200
        reply = await world.ask(Ask("GET", TARGET, Token(expires_in=77)))
        assert (reply.status, reply.json()["type"]) == (503, "urn:problem-type:wardgate:identity-unavailable")
    finally:
        front.broken = False

    async def back():
        return (await world.ask(Ask("GET", TARGET, Token(expires_in=78)))).status == 200

    await until(back, 60)
