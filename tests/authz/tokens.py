"""Tokens, keys and issuers for the tests of this room: real keys and real signatures, also over what is malformed."""

import json
from base64 import urlsafe_b64encode
from functools import cache

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

from authz.keyset import read_keys
from authz.token import Trusted, verify_token
from model.instant import DAY, SECOND
from model.snapshot import Issuer
from model.verdict import Deny

NOW_S = 1_796_040_000
NOW = NOW_S * SECOND
NAME = "https://id.example"
LIBRARY = get_default_algorithms()
LIBRARY["Ed25519"] = LIBRARY["EdDSA"]
KINDS = {
    "rsa": "RS256",
    "rsa-2": "RS256",
    "ed": "EdDSA",
    "ed-2": "EdDSA",
    "p256": "ES256",
    "p384": "ES384",
    "p521": "ES512",
    "k256": "ES256K",
}
CLAIMS = {
    "iss": NAME,
    "aud": "api",
    "exp": NOW_S + 300,
    "iat": NOW_S - 5,
    "sub": "user-1",
    "client_id": "client-1",
    "jti": "t-1",
    "scope": "accounts payments",
}


@cache
def private_key(name):
    kind = name.split("-")[0]
    if kind == "rsa":
        return rsa.generate_private_key(65537, 2048)
    if kind == "ed":
        return ed25519.Ed25519PrivateKey.generate()
    curves = {"p256": ec.SECP256R1, "p384": ec.SECP384R1, "p521": ec.SECP521R1, "k256": ec.SECP256K1}
    return ec.generate_private_key(curves[kind]())


def jwk(name, **members):
    """The public JWK of a test key, with its name as kid; a member given as None is left out."""
    public = LIBRARY[KINDS[name]].to_jwk(private_key(name).public_key(), as_dict=True)
    public.pop("key_ops", None)
    return {key: value for key, value in {**public, "kid": name, **members}.items() if value is not None}


def key_set(*entries):
    return json.dumps({"keys": list(entries)}).encode()


def encode(raw):
    raw = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def sign(header, payload, key="ed", algorithm=None):
    """A token over exactly these octets (or objects), signed by a test key."""
    signed = f"{encode(header)}.{encode(payload)}"
    signature = LIBRARY[algorithm or KINDS[key]].sign(signed.encode(), private_key(key))
    return f"{signed}.{encode(signature)}"


def token(key="ed", algorithm=None, header=None, without=(), **claims):
    """A good token of the test issuer, but for what is given otherwise."""
    head = {"alg": algorithm or KINDS[key], "kid": key, "typ": "at+jwt", **(header or {})}
    head = {name: value for name, value in head.items() if value is not ...}
    body = {name: value for name, value in {**CLAIMS, **claims}.items() if name not in without}
    return sign(head, body, key, algorithm)


def issuer(**members):
    members.setdefault("algorithms", tuple(sorted({*LIBRARY} - {"none", "HS256", "HS384", "HS512", "ES256K"})))
    return Issuer(**{"id": "idp", "issuer": NAME, "jwks": "https://id.example/keys", "audiences": ("api",), **members})


def trust(*entries, until=NOW + DAY, **members):
    """Trust in the test issuer, holding the given JWKs; all test keys of the usual kinds where none are given."""
    entries = entries or tuple(jwk(name) for name in ("rsa", "ed", "p256", "p384", "p521"))
    one = issuer(**members)
    return {one.issuer: Trusted(one, read_keys(key_set(*entries)), until)}


def verify(text, now=NOW, **members):
    return verify_token(text, trust(**members), now)


def reason(text, now=NOW, **members):
    answer = verify(text, now, **members)
    assert isinstance(answer, Deny), answer
    return answer.reason
