"""Key sets: what is usable is used, everything else is left out and said so."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.keyset import KEYS_LIMIT, TRIES_LIMIT, KeySetInvalid, KeyUnusable, read_key, read_keys
from tests.authz.tokens import encode, jwk, key_set, private_key

FIELD = 2**255 - 19
EIGHT = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
# The points whose order divides 8, with both signs, and those of their spellings that are not reduced.
SMALL_ORDER = [
    (y + sign).to_bytes(32, "little")
    for y in (0, 1, FIELD - 1, EIGHT, FIELD - EIGHT, FIELD, FIELD + 1)
    for sign in (0, 1 << 255)
]


def rsa_jwk(modulus, exponent=65537, **members):
    size = (modulus.bit_length() + 7) // 8
    return {
        "kty": "RSA",
        "n": encode(modulus.to_bytes(size)),
        "e": encode(exponent.to_bytes(8).lstrip(b"\0")),
        **members,
    }


def modulus():
    return private_key("rsa").public_key().public_numbers().n


def test_one_unusable_key_leaves_the_others_usable():
    """J-14, pitfall 8: a set of one good RSA key among keys of every other sort."""
    keys = read_keys(
        key_set(
            jwk("rsa"),
            {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA"},
            jwk("k256"),
            {"kty": "OKP", "crv": "Ed25519"},
            {"kty": "RSA", "kid": "no-n"},
            {},
            None,
            5,
            {"kty": 5},
            {"kty": "RSA", "n": 7, "e": "AQAB"},
            {"kty": "oct", "k": "AAAA", "kid": "rsa"},
            [],
        )
    )

    assert [key.kid for key in keys.keys] == ["rsa"]
    assert len(keys.ignored) == 11


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<html>maintenance</html>",
        b"{}",
        b"[]",
        b'{"keys":[]}',
        b'{"keys":null}',
        b'{"keys":{}}',
        b'{"keys":[{"kty":"oct","k":"AAAA"}]}',
        b'{"keys":[{"kty":"RSA"',
        b'{"keys":[],"keys":[]}',
        b'{"keys":' + b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_document_without_any_usable_key_is_no_key_set(document):
    """J-09, J-14: only a set with nothing usable counts as a failed refresh."""
    with pytest.raises(KeySetInvalid):
        read_keys(document)


def test_members_that_are_optional_may_be_missing():
    """J-15: neither alg nor use has to be there; RFC 7517 sections 4.2 to 4.4."""
    assert "RS256" in read_key(jwk("rsa", kid=None)).verifiers
    assert set(read_key(jwk("p256", alg=None, use=None)).verifiers) == {"ES256"}
    assert "PS512" in read_key({**jwk("rsa"), "alg": None, "use": None, "key_ops": None, "kid": None}).verifiers


@pytest.mark.parametrize(
    "members",
    [
        {"use": "enc"},
        {"use": ""},
        {"use": 5},
        {"key_ops": ["encrypt"]},
        {"key_ops": []},
        {"key_ops": "verify"},
        {"key_ops": ["sign"]},
        {"use": "enc", "key_ops": ["verify"]},
        {"alg": "RSA-OAEP"},
        {"alg": "ES256"},
        {"alg": "HS256"},
        {"alg": "none"},
        {"alg": ["RS256"]},
        {"alg": {}},
        {"kid": 5},
        {"kid": "k" * 257},
    ],
)
def test_a_key_that_says_it_is_for_something_else_is_not_used(members):
    """J-15, pitfall 18: optional members bind where they are present."""
    with pytest.raises(KeyUnusable):
        read_key(jwk("rsa", **members))


def test_a_key_verifies_under_its_own_alg_alone():
    """Pitfall 3: the header cannot pick another algorithm for a key than the one it was published for."""
    assert set(read_key(jwk("rsa", alg="PS256")).verifiers) == {"PS256"}
    assert set(read_key(jwk("ed", alg="Ed25519")).verifiers) == {"EdDSA", "Ed25519"}


@pytest.mark.parametrize(
    "members",
    [{"d": "AAAA"}, {"p": "AAAA"}, {"k": "AAAA"}, {"oth": []}, {"dp": None}],
)
def test_a_key_with_private_members_is_not_used(members):
    """Who can read a published private key can sign: the key is worth nothing (standards 2.1, point 6)."""
    with pytest.raises(KeyUnusable):
        read_key(json.loads(json.dumps({**jwk("rsa"), **members})))


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (lambda: rsa_jwk(modulus() >> 1 | 1), "2048"),
        (lambda: rsa_jwk((1 << 1023) | 1), "2048"),
        (lambda: rsa_jwk((1 << 8192) | 1), "8192"),
        (lambda: rsa_jwk(modulus(), 1), "public key"),
        (lambda: rsa_jwk(modulus(), 3), "exponent"),
        (lambda: rsa_jwk(modulus(), 65538), "exponent|public key"),
        (lambda: rsa_jwk(modulus(), (1 << 32) + 1), "exponent|public key"),
        (lambda: rsa_jwk(modulus() - 1), "even"),
        (lambda: rsa_jwk(pow(65537, 128)), "ROCA"),
        (lambda: {**jwk("rsa"), "n": jwk("rsa")["n"] + "="}, "base64url"),
        (lambda: {**jwk("rsa"), "n": " " + jwk("rsa")["n"]}, "base64url"),
        (lambda: {**jwk("rsa"), "e": ""}, "public key"),
        (lambda: {**jwk("p256"), "y": jwk("p256")["x"]}, "public key"),
        (lambda: {**jwk("p256"), "crv": "P-384"}, "public key"),
        (lambda: {**jwk("p256"), "kty": "OKP"}, "not used"),
        (lambda: {**jwk("ed"), "kty": "EC"}, "not used"),
        (lambda: {**jwk("p256"), "kty": "RSA"}, "n is missing|e is missing"),
        (lambda: {**jwk("p384"), "crv": ["P-384"]}, "not used"),
        (lambda: {**jwk("ed"), "crv": "X25519"}, "not used"),
        (lambda: {**jwk("ed"), "x": encode(b"\1" * 31)}, "public key"),
        (lambda: jwk("k256"), "not used"),
    ],
)
def test_a_weak_or_impossible_key_is_not_used(entry, why):
    """Pitfall 19, Wycheproof JWK 7 to 24."""
    with pytest.raises(KeyUnusable, match=why):
        read_key(entry())


@pytest.mark.parametrize("point", SMALL_ORDER, ids=bytes.hex)
def test_a_point_of_small_order_is_not_used(point):
    """Pitfall 17: under such a key some signatures hold for every message."""
    with pytest.raises(KeyUnusable, match="small order"):
        read_key({"kty": "OKP", "crv": "Ed25519", "x": encode(point)})


def test_keys_of_two_types_may_share_a_kid():
    """J-17: a duplicate kid is resolved by what the algorithm fits, and an oct key never takes part."""
    keys = read_keys(key_set(jwk("rsa", kid="k"), jwk("ed", kid="k"), {"kty": "oct", "k": "AAAA", "kid": "k"}))

    assert [key.kind for key in keys.select("k", "RS256")] == ["RSA"]
    assert [key.kind for key in keys.select("k", "EdDSA")] == ["Ed25519"]
    assert keys.select("k", "HS256") == ()


def test_keys_that_cannot_be_told_apart_by_kid_and_type_are_both_left_out():
    """Wycheproof JWK 4: nobody can say which of the two the issuer meant."""
    keys = read_keys(key_set(jwk("ed", kid="k"), jwk("ed-2", kid="k"), jwk("rsa")))

    assert [key.kid for key in keys.keys] == ["rsa"]
    assert len(keys.ignored) == 2


def test_the_same_key_twice_is_one_key():
    assert len(read_keys(key_set(jwk("ed"), jwk("ed"))).keys) == 1


def test_one_key_published_for_several_algorithms_is_not_ambiguous():
    keys = read_keys(key_set(jwk("rsa", alg="RS256"), jwk("rsa", alg="PS256"), jwk("rsa", alg=None)))

    assert keys.ignored == ()
    assert keys.select("rsa", "PS256")


def test_a_set_is_read_up_to_its_limit():
    keys = read_keys(key_set(*(jwk("ed", kid=f"k{n}") for n in range(KEYS_LIMIT + 5))))

    assert len(keys.keys) == KEYS_LIMIT
    assert keys.ignored == ("5 keys beyond the first 100",)


def test_without_a_kid_every_fitting_key_may_be_tried_up_to_a_limit():
    names = ["ed", "ed-2", "ed-3", "ed-4", "ed-5", "ed-6"]
    keys = read_keys(key_set(jwk("rsa"), *({**jwk("ed"), "x": _x(name), "kid": name} for name in names)))

    assert len(keys.select(None, "EdDSA")) == TRIES_LIMIT
    assert [key.kid for key in keys.select(None, "RS256")] == ["rsa"]
    assert keys.select("nobody", "RS256") is None


def _x(name):
    return encode(private_key(name).public_key().public_bytes_raw())


def test_two_spellings_of_a_document_have_two_digests_and_the_same_thumbprints():
    one, other = read_keys(key_set(jwk("ed"))), read_keys(key_set(jwk("ed"), {}))

    assert one.digest != other.digest
    assert one.thumbprints == other.thumbprints


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner))
names = st.sampled_from(["kty", "crv", "x", "y", "n", "e", "alg", "use", "key_ops", "kid", "d"])


@given(st.sampled_from(["rsa", "ed", "p256", "p521"]), names, values)
def test_no_value_in_any_member_raises_anything_but_unusable(name, member, value):
    try:
        key = read_key({**jwk(name), member: value})
    except KeyUnusable:
        return
    assert set(key.verifiers) <= set(read_key(jwk(name)).verifiers)


@given(st.binary(max_size=100))
def test_no_document_raises_anything_but_invalid(document):
    with pytest.raises(KeySetInvalid):
        read_keys(document)
