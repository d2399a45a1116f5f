"""What Envoy tells of a client's certificates is read, or refused with its reason, before anybody trusts it."""

import base64
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from authz.certificate import (
    MAX_CERTIFICATES,
    Certificates,
    Identity,
    judge_certificate,
    open_trust,
    read_peer,
)
from model.reason import Reason
from tests.authz import pki
from tests.authz.judging import judged, outcome, qwac

# Reading what Envoy sends


def test_no_certificate_is_missing_not_malformed():
    """A route that needs one says so with a reason of its own."""
    assert read_peer("").reason is Reason.CERTIFICATE_MISSING


@pytest.mark.parametrize(
    "text",
    [
        "garbage",
        "%",
        "%2",
        "%GG",
        "-----BEGIN CERTIFICATE-----",
        quote("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"),
        quote("-----BEGIN CERTIFICATE-----\n====\n-----END CERTIFICATE-----\n"),
        quote("-----BEGIN CERTIFICATE-----\nAAA\n-----END CERTIFICATE-----\n"),
        quote("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
        "\ud800",
        "é",
        "\x00",
    ],
)
def test_anything_but_url_encoded_pem_is_malformed(text):
    """Broken escapes, other PEM labels and other characters are refused without an exception."""
    assert read_peer(text).reason is Reason.CERTIFICATE_MALFORMED


def test_text_around_the_certificate_is_malformed():
    """C-04: what stands beside a certificate could be read as another one by somebody else."""
    pem = qwac().pem
    for text in ("x" + pem, pem + "x", pem.replace("\n", "\n!\n", 2), pem + "%00"):
        assert read_peer(quote(text, safe="%")).reason is Reason.CERTIFICATE_MALFORMED


def test_plain_pem_and_either_case_of_escapes_are_read(root):
    """What is escaped and how is the proxy's business."""
    leaf = pki.qwac(root)
    texts = [leaf.pem, quote(leaf.pem, safe=""), quote(leaf.pem, safe="").lower().replace("%2b", "%2B")]
    assert read_peer(texts[0]) == read_peer(texts[1])
    assert isinstance(read_peer(texts[0]), Certificates)


def test_certificates_that_come_along_serve_as_issuers(root):
    """C-04: a PEM with two certificates is a leaf and its issuer."""
    middle = pki.authority("Middle", root)
    leaf = pki.qwac(middle)
    trust = open_trust(pki.profile_of(root))
    assert isinstance(judged(leaf, middle, trust=trust), Identity)
    assert judged(leaf, trust=trust).reason is Reason.CERTIFICATE_UNTRUSTED
    assert judged(middle, leaf, trust=trust).reason is Reason.CERTIFICATE_USAGE


def test_an_odd_certificate_that_came_along_refuses_nobody(root):
    """It is nobody's issuer then; the leaf is judged without it."""
    junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    peer = read_peer(quote(pki.qwac(root).pem + junk, safe=""))
    assert isinstance(judge_certificate(peer, open_trust(pki.profile_of(root)), pki.NOW), Identity)


def test_size_caps_hold_before_anything_is_parsed(root):
    """C-04: 1 MB of PEM, nine certificates and a leaf of more than 16 KiB are refused."""
    assert read_peer("A" * 1_000_000).reason is Reason.CERTIFICATE_MALFORMED
    leaf = pki.qwac(root)
    assert isinstance(read_peer(pki.encoded(*[leaf] * MAX_CERTIFICATES)), Certificates)
    assert read_peer(pki.encoded(*[leaf] * (MAX_CERTIFICATES + 1))).reason is Reason.CERTIFICATE_MALFORMED
    padding = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3"), bytes(16 * 1024))
    large = pki.qwac(root, extra=[(padding, False)])
    assert read_peer(pki.encoded(large)).reason is Reason.CERTIFICATE_MALFORMED


# Odd but real certificates


def mutated(leaf, old, new):
    assert old in leaf.der
    der = leaf.der.replace(old, new)
    pem = "-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der).decode() + "-----END CERTIFICATE-----\n"
    return quote(pem, safe="")


def test_a_serial_number_that_is_not_positive_is_unparsable(root):
    """C-04: pyca/cryptography#6609."""
    text = mutated(pki.qwac(root, serial=0x77777777), b"\x02\x04\x77\x77\x77\x77", b"\x02\x04\xf7\x77\x77\x77")
    verdict = judge_certificate(read_peer(text), open_trust(pki.profile_of(root)), pki.NOW)
    assert verdict.reason is Reason.CERTIFICATE_MALFORMED
    zero = mutated(pki.qwac(root, serial=0x77), b"\x02\x01\x77", b"\x02\x01\x00")
    verdict = judge_certificate(read_peer(zero), open_trust(pki.profile_of(root)), pki.NOW)
    assert verdict.reason is Reason.CERTIFICATE_MALFORMED


def test_a_name_that_is_not_utf8_is_unparsable(root):
    """C-04: pyca/cryptography#6804, a latin-1 byte in a UTF8String."""
    text = mutated(pki.qwac(root), b"partner.example", b"partner.exampl\xe9")
    verdict = judge_certificate(read_peer(text), open_trust(pki.profile_of(root)), pki.NOW)
    assert verdict.reason is Reason.CERTIFICATE_MALFORMED


def odd_name(*attributes):
    plain = [x509.NameAttribute(pki.ORGANIZATION_IDENTIFIER, "PSDDE-BAFIN-123456")]
    return x509.Name([*plain, *attributes])


@pytest.mark.filterwarnings("ignore:Attribute's length:UserWarning")  # of the builder, which makes one on purpose
def test_odd_names_that_nobody_needs_are_allowed(root):
    """C-04: a country of more than two letters (#3857) and a NumericString (#2724) are irrelevant to the decision."""
    country = x509.NameAttribute(NameOID.COUNTRY_NAME, "Spain", _validate=False)
    number = x509.NameAttribute(NameOID.SERIAL_NUMBER, "12345", x509.name._ASN1Type.NumericString)
    for attribute in (country, number):
        leaf = pki.issue(odd_name(attribute), root, extensions=pki.leaf_extensions())
        assert isinstance(outcome(leaf, root=root), Identity)


def test_a_nul_in_the_organisation_is_refused(root):
    """Pitfall 29: PSDDE-BAFIN-1 followed by NUL is not PSDDE-BAFIN-1."""
    leaf = pki.qwac(root, organisations=("PSDDE-BAFIN-1\x00",))
    assert outcome(leaf, root=root) is Reason.CERTIFICATE_ORGANISATION_ID


def test_a_second_encoding_of_the_same_certificate_is_unparsable(root):
    """Unused bits in the signature would give it another thumbprint under the same signature."""
    leaf = pki.qwac(root)
    signature = leaf.certificate.signature
    text = mutated(leaf, b"\x00" + signature, b"\x01" + signature[:-1] + bytes((signature[-1] & 0xFE,)))
    verdict = judge_certificate(read_peer(text), open_trust(pki.profile_of(root)), pki.NOW)
    assert verdict.reason is Reason.CERTIFICATE_MALFORMED


def test_a_repeated_extension_is_unparsable(root):
    """Which of two would count is nobody's to guess."""
    odd = x509.ObjectIdentifier("1.2.3.4")
    other = x509.ObjectIdentifier("1.2.3.5")
    extra = [(x509.UnrecognizedExtension(each, b"\x05\x00"), False) for each in (odd, other)]
    text = mutated(pki.qwac(root, extra=extra), b"\x06\x03\x2a\x03\x05", b"\x06\x03\x2a\x03\x04")
    verdict = judge_certificate(read_peer(text), open_trust(pki.profile_of(root)), pki.NOW)
    assert verdict.reason is Reason.CERTIFICATE_MALFORMED
