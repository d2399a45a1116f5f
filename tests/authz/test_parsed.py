"""A certificate as facts, and the ways in which reading one fails."""

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa
from cryptography.hazmat.primitives.serialization import Encoding

from authz.parsed import Unparsable, fold_name, parse_certificate
from model.instant import SECOND
from tests.authz import pki


def test_validity_counts_whole_seconds_with_the_last_one():
    """From the first nanosecond of notBefore to the last of notAfter."""
    leaf = parse_certificate(pki.qwac(None, start=datetime(2026, 1, 1, tzinfo=UTC), end=pki.MOMENT).der)
    assert leaf.not_before == int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * SECOND
    assert leaf.not_after == pki.NOW + SECOND - 1


@pytest.mark.parametrize(
    ("keyed", "expected"),
    [
        ("rsa1024", "an RSA key of 1024 bits"),
        ("rsa2048", ""),
        ("k256", "an elliptic curve key on secp256k1"),
        ("p256", ""),
        ("ed25519", ""),
    ],
)
def test_weak_keys_are_named(keyed, expected):
    """The words go into the refusal."""
    assert parse_certificate(pki.qwac(None, keyed=keyed).der).weak_key == expected


def test_a_key_of_another_kind_is_weak():
    """DSA is read, so that the refusal can say what was wrong."""
    key = dsa.generate_private_key(2048)
    builder = x509.CertificateBuilder(
        pki.name_of("a"), pki.name_of("a"), key.public_key(), 5, pki.MOMENT, pki.MOMENT + pki.DAY
    )
    leaf = parse_certificate(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER))
    assert leaf.weak_key == "a key of an unknown kind"


def test_names_fold_case_and_spaces_and_keep_their_order():
    """RFC 5280 section 7.1; two attributes in another order are another name."""
    assert fold_name(pki.name_of("A  b ", "x")) == fold_name(pki.name_of("a B", "X"))
    assert fold_name(pki.name_of("a", "x", "y")) != fold_name(pki.name_of("a", "y", "x"))


@pytest.mark.parametrize("der", [b"", b"\x30", b"\x30\x80\x00\x00", b"junk", bytes(100)])
def test_what_is_no_certificate_is_unparsable(der):
    """One exception for all of it."""
    with pytest.raises(Unparsable):
        parse_certificate(der)


def test_nothing_may_follow_the_certificate():
    """Trailing bytes would be another file with the same certificate in it."""
    with pytest.raises(Unparsable):
        parse_certificate(pki.qwac(None).der + b"\x00")
