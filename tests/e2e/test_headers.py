"""What a client writes into its headers decides nothing (bug reports H-08, H-09, H-11, H-13, H-17, C-10)."""

import base64
import json

import pytest

from demo.cases import ALPHA, FORGED
from demo.client import connect
from demo.row import Expect, complaints, describe
from demo.world import Ask, Token

ECHO = "/v3/accounts/echo"
FORWARDED = 'Hash=00;Subject="CN=boss";URI=spiffe://boss'


async def echo(world, *headers):
    reply = await world.ask(Ask("GET", ECHO, ALPHA, headers=headers))
    assert reply.status == 200, describe(reply)
    return reply.json()["metadata"]


def claims_of(context):
    payload = context.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


async def test_the_credential_does_not_reach_the_backend(world):
    seen = await echo(world)
    assert "authorization" not in seen
    token = await world.token(ALPHA)
    assert not [name for name, value in seen.items() if token in value]


async def test_the_backend_gets_one_fresh_context_and_not_the_forged_one(world):
    seen = await echo(world, *FORGED)
    claims = claims_of(seen["x-verified-caller-context"])
    expected = ("fintech-alpha", "partner", "PSDDE-BAFIN-100001", "account-ledger")
    assert expected == tuple(claims[name] for name in ("client_id", "tier", "organisation", "aud"))
    assert claims["scopes"] == ["accounts"]
    assert claims["psd2_roles"] == ["PSP_AI", "PSP_PI"]
    assert 0 < claims["exp"] - claims["iat"] <= 30


@pytest.mark.parametrize(
    "headers",
    [
        [("X-Forwarded-Client-Cert", FORWARDED)],
        [("X-Forwarded-Client-Cert", FORWARDED), ("X-Forwarded-Client-Cert", FORWARDED)],
        [("x-FORWARDED-client-CERT", f"{FORWARDED},{FORWARDED}")],
    ],
    ids=["once", "twice", "list"],
)
async def test_a_forged_client_certificate_header_is_gone(world, headers):
    assert not [value for value in (await echo(world, *headers)).values() if "boss" in value]


async def test_on_a_plane_without_client_certificates_a_forged_one_opens_nothing(world):
    headers = (("X-Forwarded-Client-Cert", FORWARDED), *FORGED)
    ask = Ask("GET", "/v3/open-data/products", identity=None, plane="PUBLIC", headers=headers)
    reply = await world.ask(ask)
    assert reply.status == 200
    event = (await world.events("ledger", method="ListProducts"))[-1]
    assert "x-forwarded-client-cert" not in event["metadata"]
    assert "client_id" not in event


async def test_the_address_limit_counts_the_peer_and_not_what_it_forwards(world):
    endpoint = world.endpoint(None, "PUBLIC", source="203.0.113.77")
    statuses = []
    async with connect(endpoint) as connection:
        for number in range(75):
            headers = (("X-Forwarded-For", f"1.2.3.{number}"), ("X-Real-IP", f"1.2.3.{number}"))
            statuses.append((await connection.send("GET", "/v3/open-data/products", headers)).status)
    assert {200, 429} == set(statuses)
    async with connect(world.endpoint(None, "PUBLIC", source="1.2.3.4")) as victim:
        assert (await victim.send("GET", "/v3/open-data/products")).status == 200


@pytest.mark.parametrize("value", ["garbage", "1.2.3.4:99", "fe80::1%eth0", ", ,", ",".join(["9.9.9.9"] * 500)])
async def test_an_odd_forwarded_for_harms_nobody(world, value):
    source = "203.0.113.78"
    async with connect(world.endpoint(None, "PUBLIC", source=source)) as connection:
        reply = await connection.send("GET", "/v3/open-data/products", [("X-Forwarded-For", value)])
    assert reply.status == 200


@pytest.mark.parametrize("size", [7, 20, 50])
async def test_a_large_token_is_allowed_or_refused_and_breaks_nothing(world, size):
    reply = await world.ask(Ask("GET", ECHO, Token(scope=scope_of(size))))
    assert reply.status in {200, 400, 401, 431}, describe(reply)
    assert complaints(reply, Expect(reply.status)) == []
    if reply.status == 200:
        assert len(reply.json()["metadata"]["x-verified-caller-context"]) <= 4096


def scope_of(kilobytes):
    """Scopes that make a token of about so many kilobytes: base64 adds a third."""
    names = [f"group-{number:05}" for number in range(kilobytes * 1000 * 3 // 4 // 12)]
    return " ".join(["accounts", *names])


async def test_headers_beyond_every_limit_are_431(world):
    reply = await world.ask(Ask("GET", ECHO, headers=(("X-Big", "x" * 70_000),)))
    assert complaints(reply, Expect(431)) == []


@pytest.mark.parametrize("other", ["Authorization", "authorization", "X-Api-Key"])
async def test_two_credentials_in_one_request_are_refused(world, other):
    reply = await world.ask(Ask("GET", ECHO, ALPHA, headers=((other, f"Bearer {await world.token(ALPHA)}"),)))
    assert reply.status in {400, 401}, describe(reply)
    assert complaints(reply, Expect(reply.status)) == []


async def test_the_answer_names_neither_proxy_nor_backend(world):
    reply = await world.ask(Ask("GET", ECHO, ALPHA))
    assert not [name for name, _ in reply.headers if name.startswith(("x-envoy", "grpc-")) or name == "x-powered-by"]
    assert reply.header("x-content-type-options") == "nosniff"
    assert reply.header("cache-control") == "no-store"
