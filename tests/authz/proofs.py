"""DPoP proofs for the tests of this room: one key, and a proof for whatever a test asks about."""

import itertools
import json
from functools import cache

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from authz.keyset import thumbprint_jwk
from authz.proof import hash_token
from tests.authz.tokens import NOW_S, token

ORIGIN = "https://api.example"
_numbers = itertools.count()


@cache
def key(name="mine"):
    del name
    return ec.generate_private_key(ec.SECP256R1())


def jwk(name="mine"):
    return json.loads(ECAlgorithm.to_jwk(key(name).public_key()))


def thumbprint(name="mine"):
    return thumbprint_jwk(jwk(name))


def bound_token(name="mine", **claims):
    """A good token that is bound to the key of that name."""
    return token(cnf={"jkt": thumbprint(name)}, **claims)


def prove(bearer, name="mine", **claims):
    """A proof for GET /v1/accounts with a token, each with a `jti` of its own; a claim of None is left out."""
    payload = {
        "jti": f"proof-{next(_numbers)}",
        "htm": "GET",
        "htu": f"{ORIGIN}/v1/accounts",
        "iat": NOW_S,
        "ath": hash_token(bearer),
    } | claims
    payload = {claim: value for claim, value in payload.items() if value is not None}
    return jwt.encode(payload, key(name), "ES256", {"typ": "dpop+jwt", "jwk": jwk(name)})
