"""Wycheproof's raw signature suites against the verifiers that a key of a key set carries."""

import pytest

from authz.keyset import KeyUnusable, read_key
from tests.authz.tokens import encode
from tests.vectors.figures import load, record

pytestmark = pytest.mark.vectors

SUITES = {
    "wycheproof_ecdsa": (
        ("ecdsa_secp256r1_sha256_p1363_test.json", "ES256", 262),
        ("ecdsa_secp384r1_sha384_p1363_test.json", "ES384", 280),
        ("ecdsa_secp521r1_sha512_p1363_test.json", "ES512", 318),
    ),
    "wycheproof_ed25519": (("ed25519_test.json", "EdDSA", 151),),
    "wycheproof_rsa": (
        ("rsa_signature_2048_sha256_test.json", "RS256", 259),
        ("rsa_pss_2048_sha256_mgf1_32_test.json", "PS256", 108),
    ),
}

# Valid signatures of keys that are refused when they are read.
DEVIATIONS = {
    "wycheproof_rsa": {
        ("RS256", 258): "the public exponent is 3: an exponent below 65537 is refused (standards 2.1, point 6)",
        ("RS256", 259): "as 258",
    },
}


def public_jwk(group):
    """The JWK of a group; some groups of the EC suites give the point alone."""
    if jwk := group.get("publicKeyJwk") or group.get("keyJwk"):
        return jwk
    point = bytes.fromhex(group["publicKey"]["uncompressed"])[1:]
    size = len(point) // 2
    curve = {32: "P-256", 48: "P-384", 66: "P-521"}[size]
    return {"kty": "EC", "crv": curve, "x": encode(point[:size]), "y": encode(point[size:])}


def accepts(group, case, algorithm):
    try:
        key = read_key(public_jwk(group))
    except KeyUnusable:
        return False
    return key.verifiers[algorithm](bytes.fromhex(case["msg"]), bytes.fromhex(case["sig"]))


@pytest.mark.parametrize("name", SUITES)
def test_every_raw_signature_goes_as_published(name):
    total, odd = 0, set()
    for file, algorithm, size in SUITES[name]:
        groups = load("wycheproof", "testvectors_v1", file)["testGroups"]
        cases = [(group, case) for group in groups for case in group["tests"]]
        assert len(cases) == size
        total += size
        odd |= {
            (algorithm, case["tcId"])
            for group, case in cases
            if accepts(group, case, algorithm) != (case["result"] == "valid")
        }
    record(name, total, total - len(odd))

    assert odd == set(DEVIATIONS.get(name, ()))
