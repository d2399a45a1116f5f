"""Constants that RFCs print, computed again by the code that uses them."""

import pytest

from authz.keyset import read_key, thumbprint_jwk
from authz.strict import Compact, read_compact
from tests.vectors.figures import load, record

pytestmark = pytest.mark.vectors


def held():
    """(what, whether it holds) for each constant of the JOSE RFCs."""
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


def test_every_constant_of_the_jose_rfcs_is_computed_equal():
    results = dict(held())
    record("rfc_verified", len(results), sum(results.values()))

    assert [what for what, holds in results.items() if not holds] == []
