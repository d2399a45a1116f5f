"""The demo identity provider mints tokens that the gateway's own reader accepts."""

import json
import time

import pytest
from aiohttp.test_utils import TestClient, TestServer

from authz.keyset import read_keys
from authz.token import Claims, Trusted, verify_token
from demo.idp import ALGORITHMS, Keys, make_app
from demo.settings import AUDIENCE, ISSUER
from model.instant import SECOND
from model.reason import Reason
from model.snapshot import Issuer

TRUSTED = Issuer("idp", ISSUER, "http://127.0.0.1/jwks.json", (AUDIENCE,), tier="partner")


@pytest.fixture
async def idp():
    async with TestClient(TestServer(make_app(Keys()))) as client:
        yield client


async def mint(idp, **order):
    response = await idp.post("/token", json={"client_id": "c", "scope": "accounts", **order})
    return (await response.json())["access_token"]


async def verify(idp, text):
    keys = read_keys(await (await idp.get("/jwks.json")).read())
    now = time.time_ns()
    return verify_token(text, {ISSUER: Trusted(TRUSTED, keys, until=now + SECOND)}, now)


@pytest.mark.parametrize("alg", ALGORITHMS)
async def test_tokens_of_every_algorithm_verify(idp, alg):
    claims = await verify(idp, await mint(idp, alg=alg))
    assert isinstance(claims, Claims)
    assert ("c", frozenset({"accounts"})) == (claims.client_id, claims.scopes)


async def test_a_token_can_be_born_expired(idp):
    verdict = await verify(idp, await mint(idp, expires_in=-600))
    assert verdict.reason == Reason.TOKEN_EXPIRED


async def test_a_rotation_keeps_the_generation_before_and_drops_the_one_before_that(idp):
    first = await mint(idp)
    await idp.post("/rotate")
    second = await mint(idp)
    assert isinstance(await verify(idp, first), Claims)
    assert isinstance(await verify(idp, second), Claims)
    await idp.post("/rotate")
    assert not isinstance(await verify(idp, first), Claims)
    assert isinstance(await verify(idp, second), Claims)


@pytest.mark.parametrize(
    "body", ["", "[]", "{}", '{"client_id":"c","alg":"HS256"}', '{"client_id":"c","expires_in":"x"}']
)
async def test_an_order_that_makes_no_sense_is_a_bad_request(idp, body):
    assert (await idp.post("/token", data=body)).status == 400


async def test_the_key_set_holds_no_private_member(idp):
    text = await (await idp.get("/jwks.json")).text()
    assert not {"d", "p", "q", "k"} & {name for key in json.loads(text)["keys"] for name in key}
