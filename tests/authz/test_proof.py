"""DPoP: a proof is for one request, one token and one key, and for one use."""

import dataclasses
import json
from base64 import urlsafe_b64encode

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from authz.keyset import thumbprint_jwk
from authz.proof import WINDOW, Demand, Replays, ReplaysFull, hash_token, judge_proof, normalise_uri
from model.instant import SECOND
from model.reason import Reason

NOW = 1_800_000_000 * SECOND
TOKEN = "header.payload.signature"
KEY = ec.generate_private_key(ec.SECP256R1())
JWK = json.loads(ECAlgorithm.to_jwk(KEY.public_key()))
DEMAND = Demand("GET", "https://api.example", "/v1/accounts?limit=5", TOKEN, thumbprint_jwk(JWK))


def prove(key=KEY, jwk=JWK, algorithm="ES256", header=None, **claims):
    """A proof for DEMAND; a claim of None is left out."""
    payload = {
        "jti": "j1",
        "htm": "GET",
        "htu": "https://api.example/v1/accounts",
        "iat": NOW // SECOND,
        "ath": hash_token(TOKEN),
    } | claims
    payload = {name: value for name, value in payload.items() if value is not None}
    headers = {"typ": "dpop+jwt", "jwk": jwk} | (header or {})
    return jwt.encode(payload, key, algorithm, headers)


def judge(proof, demand=DEMAND, replays=None, now=NOW):
    verdict = judge_proof(proof, demand, replays if replays is not None else Replays(), now)
    return None if verdict is None else verdict.reason


def test_good_proof_holds():
    """All of RFC 9449 section 4.3 is met."""
    assert judge(prove()) is None


def test_ed25519_key_proves_too():
    """The keys are those of tokens, RSASSA-PKCS1-v1_5 excepted."""
    key = ed25519.Ed25519PrivateKey.generate()
    jwk = json.loads(OKPAlgorithm.to_jwk(key.public_key()))
    demand = Demand("GET", "https://api.example", "/v1/accounts", TOKEN, thumbprint_jwk(jwk))

    assert judge(prove(key, jwk, "EdDSA"), demand) is None


def test_pkcs1_signature_is_no_proof():
    """FAPI 2.0 section 5.4."""
    key = rsa.generate_private_key(65537, 2048)
    jwk = json.loads(RSAAlgorithm.to_jwk(key.public_key()))
    demand = Demand("GET", "https://api.example", "/v1/accounts", TOKEN, thumbprint_jwk(jwk))

    assert judge(prove(key, jwk, "RS256"), demand) is Reason.PROOF_INVALID
    assert judge(prove(key, jwk, "PS256"), demand) is None


@pytest.mark.parametrize(
    "claims",
    [
        {"htm": "POST"},
        {"htm": "get"},
        {"htm": None},
        {"htu": "https://api.example/v1/payments"},
        {"htu": "http://api.example/v1/accounts"},
        {"htu": "https://evil.example/v1/accounts"},
        {"htu": "/v1/accounts"},
        {"htu": "https://api.example@evil.example/v1/accounts"},
        {"htu": "https://api.example/v1%2Faccounts"},
        {"htu": "https://api.example/v1/accounts/"},
        {"htu": "https://api.example/%zz"},
        {"htu": "https://api.example/v1\r/accounts"},
        {"htu": "https://api.example/v1/\taccounts"},
        {"htu": " https://api.example/v1/accounts"},
        {"htu": 5},
        {"htu": None},
        {"iat": NOW // SECOND - 61},
        {"iat": NOW // SECOND + 61},
        {"iat": "now"},
        {"iat": True},
        {"iat": 10**300},
        {"iat": None},
        {"jti": ""},
        {"jti": "x" * 129},
        {"jti": 7},
        {"jti": None},
        {"ath": None},
        {"ath": hash_token("another")},
        {"ath": 1},
    ],
)
def test_proof_for_something_else_is_refused(claims):
    """Method, target, time, id and token are each checked, in type and value (pitfall 26)."""
    assert judge(prove(**claims)) is Reason.PROOF_INVALID


@pytest.mark.parametrize(
    "header",
    [
        {"typ": "JWT"},
        {"typ": "at+jwt"},
        {"jwk": None},
        {"jwk": {}},
        {"jwk": JWK | {"d": "AAAA"}},
        {"jwk": {"kty": "oct", "k": "AAAA"}},
        {"jku": "https://evil.example/keys"},
        {"x5u": "https://evil.example/keys"},
    ],
)
def test_header_that_is_no_proof_header_is_refused(header):
    """Only a public `jwk`, and only the type of a proof (pitfalls 4 and 24)."""
    assert judge(prove(header=header)) is Reason.PROOF_INVALID


def test_another_key_than_the_bound_one_is_a_mismatch():
    """The thumbprint of the proof's key is compared with `cnf.jkt`."""
    other = ec.generate_private_key(ec.SECP256R1())

    assert judge(prove(other, json.loads(ECAlgorithm.to_jwk(other.public_key())))) is Reason.BINDING_MISMATCH


def test_claimed_key_must_have_signed():
    """Bringing somebody's public key is not holding it."""
    assert judge(prove(ec.generate_private_key(ec.SECP256R1()), JWK)) is Reason.PROOF_INVALID


def test_proof_is_good_once():
    """A replay within the window is refused; another jti is another proof."""
    replays = Replays()

    assert judge(prove(), replays=replays) is None
    assert judge(prove(), replays=replays) is Reason.PROOF_REPLAYED
    assert judge(prove(jti="j2"), replays=replays) is None


def test_refused_proof_is_not_remembered():
    """Somebody who sends a bad copy first does not burn the good one."""
    replays = Replays()
    judge(prove(htm="POST"), replays=replays)

    assert judge(prove(), replays=replays) is None


@given(st.integers(-2 * WINDOW, 2 * WINDOW), st.integers(0, 5 * WINDOW))
def test_no_replay_ever_passes(skew, wait):
    """Whatever the skew of the proof's clock, a proof passes at most once in its whole life."""
    replays = Replays()
    proof = prove(iat=(NOW + skew) // SECOND)
    verdicts = [judge(proof, replays=replays, now=NOW), judge(proof, replays=replays, now=NOW + wait)]

    assert verdicts.count(None) <= 1


def test_memory_is_bounded_and_full_is_not_open():
    """With no room to note a proof it cannot be told from a replay; room comes back with time."""
    replays = Replays(capacity=2)
    for jti in "ab":
        assert replays.first_use("k", jti, NOW + WINDOW, NOW)
    with pytest.raises(ReplaysFull):
        replays.first_use("k", "c", NOW + WINDOW, NOW)

    assert replays.first_use("k", "c", NOW + 3 * WINDOW, NOW + WINDOW + 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("HTTPS://API.Example:443/a", "https://api.example/a"),
        ("https://api.example", "https://api.example/"),
        ("https://api.example/a/./b/../c", "https://api.example/a/c"),
        ("https://api.example/%7Ea%2f", "https://api.example/~a%2F"),
        ("https://api.example/a?x=1#y", "https://api.example/a"),
        ("https://[::1]:8443/a", "https://[::1]:8443/a"),
    ],
)
def test_equal_uris_are_spelled_alike(one, other):
    """RFC 3986 sections 6.2.2 and 6.2.3, as RFC 9449 section 4.3 asks for."""
    assert normalise_uri(one) == normalise_uri(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://api.example/a", "https://api.example/A"),
        ("https://api.example/a/", "https://api.example/a"),
        ("https://api.example/a%2Fb", "https://api.example/a/b"),
        ("https://api.example:8443/a", "https://api.example/a"),
        ("http://api.example/a", "https://api.example/a"),
        ("https://api.example/a;b", "https://api.example/a%3Bb"),
    ],
)
def test_different_uris_stay_different(one, other):
    """No normalisation beyond what leaves the meaning alone."""
    assert normalise_uri(one) != normalise_uri(other)


def test_rfc_vector_for_ath():
    """RFC 9449 section 7.1: the token of the example and its `ath`."""
    token = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"

    assert hash_token(token) == "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"


@given(st.text() | st.binary(max_size=300).map(lambda b: urlsafe_b64encode(b).decode() + ".." + "A"))
def test_no_text_raises_or_passes(text):
    """Garbage is an invalid proof."""
    assert judge(text) is Reason.PROOF_INVALID


@pytest.mark.parametrize("path", [":/v1/accounts", "@api.example/v1/accounts", "*", ""])
def test_request_path_never_becomes_a_part_of_the_authority(path):
    """`https://api.example:/v1/accounts` is the same URI with a port left empty; the request was for another path."""
    assert judge(prove(), dataclasses.replace(DEMAND, path=path)) is Reason.PROOF_INVALID
