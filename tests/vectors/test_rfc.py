"""Constants that RFCs print, computed again by the code that uses them."""

from base64 import b64decode
from types import SimpleNamespace

import pytest

from authz.keyset import read_key, thumbprint_jwk
from authz.parsed import Parsed
from authz.proof import hash_token
from authz.strict import Compact, read_compact
from tests.authz.tokens import encode
from tests.vectors.figures import load, record

pytestmark = pytest.mark.vectors


def held():
    """(what, whether it holds) for each constant."""
    rfc = load("rfc-verified", "vectors.json")
    okp = rfc["rfc8037_ed25519"]
    compact = read_compact(okp["jws"])
    assert isinstance(compact, Compact)
    verify = read_key(okp["jwk"]).verifiers["EdDSA"]
    yield "rfc7638 thumbprint (RSA)", thumbprint_jwk(rfc["rfc7638_rsa"]["jwk"]) == rfc["rfc7638_rsa"]["thumbprint"]
    yield "rfc8037 thumbprint (OKP)", thumbprint_jwk(okp["jwk"]) == okp["thumbprint"]
    yield "rfc8037 signature", verify(compact.signed, compact.signature)
    yield "rfc8037 payload", compact.payload == b"Example of Ed25519 signing"
    yield "rfc9449 jkt (EC)", read_key(rfc["rfc9449_jkt"]["jwk"]).thumbprint == rfc["rfc9449_jkt"]["jkt"]
    yield "rfc9449 ath", hash_token(rfc["rfc9449_ath"]["access_token"]) == rfc["rfc9449_ath"]["ath"]
    bound = rfc["rfc8705_x5t_S256"]
    # The RFC prints a version 1 certificate, which is refused as a client certificate: only the digest is asked for.
    leaf = SimpleNamespace(der=b64decode(bound["cert_pem_body"]))
    yield "rfc8705 x5t#S256", encode(Parsed.thumbprint.fget(leaf)) == bound["x5t#S256"]
    yield "rfc9421 B.2.6 signature", holds_message_signature(rfc["rfc9421_b26_ed25519"])


def holds_message_signature(example):
    """RFC 9421 is not built; its example is one more Ed25519 signature from an independent hand."""
    request, covered = example["request"], example["signature_input"].removeprefix("sig-b26=")
    values = {"@method": request["method"], "@path": request["path"], "@authority": request["authority"]}
    values |= request["headers"]
    names = covered[1 : covered.index(")")].replace('"', "").split(" ")
    base = [f'"{name}": {values[name]}' for name in names] + [f'"@signature-params": {covered}']
    key = read_key({"kty": "OKP", "crv": "Ed25519", "x": encode(b64decode(example["public_key_raw_b64"]))})
    return key.verifiers["Ed25519"]("\n".join(base).encode(), b64decode(example["signature"].split(":")[1]))


def test_every_constant_is_computed_equal():
    results = dict(held())
    record("rfc_verified", len(results), sum(results.values()))

    assert [what for what, holds in results.items() if not holds] == []
