"""A demo identity provider: publishes its keys as JWKS, mints access tokens (RFC 9068) for whoever asks, rotates.

It answers anybody, since it exists only to give the demo's partners something to present.
"""

import time
import uuid
from collections.abc import Mapping
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from demo.settings import AUDIENCE, ISSUER

PrivateKey = ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

ALGORITHMS = ("EdDSA", "RS256", "ES256")
LIFETIME = 300  # seconds


class Keys:
    """One current key per algorithm, and the retired ones that tokens in the field may still name."""

    def __init__(self) -> None:
        self.generation = 0
        self.current: dict[str, tuple[str, PrivateKey]] = {}
        self.published: list[dict[str, Any]] = []
        self.rotate()

    def rotate(self) -> None:
        """Put a new key in the place of each, and go on publishing the generation before."""
        self.generation += 1
        retired = self.published[-len(ALGORITHMS) :]
        self.current = {alg: (f"{alg.lower()}-{self.generation}", make_key(alg)) for alg in ALGORITHMS}
        self.published = retired + [public_jwk(alg, kid, key) for alg, (kid, key) in self.current.items()]

    def mint(self, order: Mapping[str, Any]) -> str:
        """Sign a token for an order: `alg`, `client_id`, `scope`, `expires_in` in seconds, other claims as they are."""
        kid, key = self.current[order.get("alg", "EdDSA")]
        return sign_token(key, order.get("alg", "EdDSA"), kid, write_claims(order, time.time()))


def make_key(algorithm: str) -> PrivateKey:
    """Make a private key for a JWS algorithm of ALGORITHMS."""
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm == "RS256":
        return rsa.generate_private_key(65537, 2048)
    return ec.generate_private_key(ec.SECP256R1())


def public_jwk(algorithm: str, kid: str, key: PrivateKey) -> dict[str, Any]:
    """Write the public half as a JWK (RFC 7517) with kid, alg and use."""
    public = key.public_key()
    if isinstance(public, ed25519.Ed25519PublicKey):
        members = OKPAlgorithm.to_jwk(public, as_dict=True)
    elif isinstance(public, rsa.RSAPublicKey):
        members = RSAAlgorithm.to_jwk(public, as_dict=True)
    else:
        members = ECAlgorithm.to_jwk(public, as_dict=True)
    members.pop("key_ops", None)
    return {**members, "kid": kid, "alg": algorithm, "use": "sig"}


def write_claims(order: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Write the claims of an RFC 9068 access token for an order; `expires_in` may be negative."""
    issued = int(now)
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": order["client_id"],
        "client_id": order["client_id"],
        "scope": order.get("scope", ""),
        "iat": min(issued, issued + int(order.get("expires_in", LIFETIME)) - 1),
        "exp": issued + int(order.get("expires_in", LIFETIME)),
        "jti": str(uuid.uuid4()),
    }
    return claims | {name: value for name, value in order.items() if name not in {"alg", "expires_in"}}


def sign_token(key: PrivateKey, algorithm: str, kid: str, claims: Mapping[str, Any]) -> str:
    """Sign claims as a compact JWS of type at+jwt."""
    return jwt.encode(dict(claims), key, algorithm=algorithm, headers={"typ": "at+jwt", "kid": kid})


def make_app(keys: Keys) -> web.Application:
    """Serve /jwks.json, POST /token, POST /rotate and /healthz."""

    async def jwks(_request: web.Request) -> web.Response:
        return web.json_response({"keys": keys.published}, headers={"Cache-Control": "max-age=300"})

    async def token(request: web.Request) -> web.Response:
        try:
            order = await request.json()
            minted = keys.mint(order)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise web.HTTPBadRequest(text=f"expected a JSON object with client_id and scope: {error!r}") from error
        return web.json_response(
            {"access_token": minted, "token_type": "Bearer"}, headers={"Cache-Control": "no-store"}
        )

    async def rotate(_request: web.Request) -> web.Response:
        keys.rotate()
        return web.json_response({"generation": keys.generation})

    async def healthz(_request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    app = web.Application()
    app.add_routes(
        [
            web.get("/jwks.json", jwks),
            web.post("/token", token),
            web.post("/rotate", rotate),
            web.get("/healthz", healthz),
        ]
    )
    return app
