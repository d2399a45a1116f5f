"""A backend's guard lets pass what the gateway signed for it and for this request, and nothing else."""

import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from authz.context import digest_text
from demo.guard import GATEWAY, HEADER, Guard
from demo.idp import public_jwk

KEY = Ed25519PrivateKey.generate()
PATH = "/v3/accounts/current?with_balance=true"
ARRIVED = {"x-envoy-original-method": "GET", "x-envoy-original-path": PATH}


def mint(key=KEY, **members):
    now = int(time.time())
    bound = {"method": "GET", "path_sha256": digest_text(PATH)}
    payload = {"iss": GATEWAY, "aud": "account-ledger", "iat": now, "exp": now + 30, "client_id": "alpha", **bound}
    headers = {"typ": "wardgate-context+jwt", "kid": "k1"}
    return jwt.encode(payload | members, key, algorithm="EdDSA", headers=headers)


@pytest.fixture
async def guard(monkeypatch):
    monkeypatch.setattr(Guard, "_fetch", lambda _self: {"keys": [public_jwk("EdDSA", "k1", KEY)]})
    return Guard("http://127.0.0.1/.well-known/jwks.json", "account-ledger")


async def test_a_context_for_this_backend_and_this_request_passes(guard):
    assert guard.verify({HEADER: mint(), **ARRIVED})["client_id"] == "alpha"


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        ARRIVED,
        {HEADER: mint()},
        {HEADER: mint(aud="payment-initiation"), **ARRIVED},
        {HEADER: mint(iss="https://elsewhere.example"), **ARRIVED},
        {HEADER: mint(iat=1, exp=31), **ARRIVED},
        {HEADER: mint(Ed25519PrivateKey.generate()), **ARRIVED},
        {HEADER: mint(), **ARRIVED, "x-envoy-original-path": "/v3/accounts/other"},
        {HEADER: mint() + "," + mint(), **ARRIVED},
    ],
    ids=["none", "no context", "no request", "audience", "issuer", "yesterday", "key", "other request", "twice"],
)
async def test_anything_else_does_not(guard, metadata):
    assert guard.verify(metadata) is None


def test_keys_that_cannot_be_fetched_let_nothing_pass():
    assert Guard("http://127.0.0.1:9/jwks.json", "account-ledger").verify({HEADER: mint(), **ARRIVED}) is None
