"""OCSP responses are believed of whom the issuer lets answer, about the certificate asked for (RFC 6960)."""

from datetime import timedelta

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID

from authz.crl import StatusInvalid
from authz.ocsp import read_response, write_request
from tests.authz import pki
from tests.authz.revoking import HOURS, parsed, responder, response_of


def read(data, leaf, issuer, now=pki.NOW):
    return read_response(data, parsed(leaf), parsed(issuer), now)


@pytest.mark.parametrize("algorithm", [hashes.SHA1(), hashes.SHA256(), hashes.SHA512()])
@pytest.mark.parametrize("by_key", [False, True])
def test_the_issuer_answers_for_its_certificates(root, algorithm, by_key):
    """By name or by key, with any digest in the CertID: SHA-1 there only names."""
    leaf = pki.qwac(root)
    assert not read(response_of(leaf, root, algorithm=algorithm, by_key=by_key), leaf, root).revoked
    revoked = response_of(leaf, root, status=ocsp.OCSPCertStatus.REVOKED, algorithm=algorithm, by_key=by_key)
    assert read(revoked, leaf, root).revoked


@pytest.mark.parametrize("kind", ["rsa2048", "ed25519", "p384"])
def test_responses_by_every_strong_kind_of_key_are_verified(kind):
    """RSA, Ed25519 and ECDSA."""
    root = pki.authority(keyed=f"{kind}/ocsp root")
    leaf = pki.qwac(root)
    assert not read(response_of(leaf, root), leaf, root).revoked


@pytest.mark.parametrize("by_key", [False, True])
def test_a_responder_that_the_issuer_authorised_answers_for_it(root, by_key):
    """RFC 6960 section 4.2.2.2: issued by that CA itself, for OCSP signing, and in its validity."""
    leaf, delegate = pki.qwac(root), responder(root)
    data = response_of(leaf, root, signer=delegate, certificates=[delegate], by_key=by_key)
    assert not read(data, leaf, root).revoked


def test_nobody_else_answers_for_the_issuer(root):
    """Pitfall 34: unauthorised, expired, foreign and absent responders."""
    leaf = pki.qwac(root)
    other = pki.authority("Other")
    partner = pki.qwac(root, keyed="p256/responder")
    wrong = [
        responder(root, usages=()),
        responder(root, usages=(ExtendedKeyUsageOID.CLIENT_AUTH,)),
        responder(root, end=pki.MOMENT - HOURS / 2),
        responder(root, start=pki.MOMENT + HOURS / 2),
        responder(other),
        responder(pki.authority(keyed="p256/forger")),
        partner,
    ]
    for signer in wrong:
        with pytest.raises(StatusInvalid, match="not authorised"):
            read(response_of(leaf, root, signer=signer, certificates=[signer]), leaf, root)
    delegate = responder(root)
    with pytest.raises(StatusInvalid, match="not authorised"):
        read(response_of(leaf, root, signer=delegate), leaf, root)
    data = response_of(leaf, root, signer=delegate, certificates=[delegate])
    signature = ocsp.load_der_ocsp_response(data).signature
    forged = data.replace(signature, signature[:-1] + bytes((signature[-1] ^ 1,)))
    with pytest.raises(StatusInvalid, match="does not hold"):
        read(forged, leaf, root)


def test_unknown_is_not_good(root):
    """A responder that does not know the certificate vouches for nothing."""
    leaf = pki.qwac(root)
    with pytest.raises(StatusInvalid, match="does not know"):
        read(response_of(leaf, root, status=ocsp.OCSPCertStatus.UNKNOWN), leaf, root)


@pytest.mark.parametrize("status", [ocsp.OCSPCertStatus.GOOD, ocsp.OCSPCertStatus.REVOKED])
def test_a_responder_whose_clock_is_seconds_ahead_is_believed(root, status):
    """A response that is signed on demand begins "now", and no two clocks agree on when that is."""
    leaf = pki.qwac(root)
    ahead = response_of(leaf, root, status=status, start=timedelta(seconds=5))
    assert read(ahead, leaf, root).fresh(pki.NOW)


@pytest.mark.parametrize(("start", "end"), [(-2 * HOURS, -HOURS), (HOURS, 2 * HOURS), (-HOURS, None)])
def test_a_response_outside_its_window_is_refused(root, start, end):
    """Yesterday's, tomorrow's, and one that would hold for ever."""
    leaf = pki.qwac(root)
    with pytest.raises(StatusInvalid):
        read(response_of(leaf, root, start=start, end=end), leaf, root)


def test_revoked_is_believed_without_an_end(root):
    """RFC 6960 leaves nextUpdate optional: thrown away for want of it, the word would be lost where policy is soft."""
    leaf = pki.qwac(root)
    data = response_of(leaf, root, status=ocsp.OCSPCertStatus.REVOKED, end=None)
    told = read(data, leaf, root)
    assert told.revoked
    assert told.renewal <= pki.NOW
    with pytest.raises(StatusInvalid, match="not in force"):
        read(response_of(leaf, root, status=ocsp.OCSPCertStatus.REVOKED, start=HOURS, end=None), leaf, root)


def test_a_response_about_another_certificate_is_refused(root):
    """The serial number and both digests of the issuer must fit."""
    leaf, other = pki.qwac(root), pki.qwac(root)
    with pytest.raises(StatusInvalid, match="another certificate"):
        read(response_of(leaf, root, about=other), leaf, root)
    namesake = pki.authority(keyed="p256/namesake")
    data = response_of(leaf, namesake, signer=root)
    with pytest.raises(StatusInvalid, match="another certificate"):
        read(data, leaf, root)


def test_refusals_and_junk_are_refused(root):
    """tryLater is no answer; neither is anything that is no response, nor one over a short digest."""
    leaf = pki.qwac(root)
    later = ocsp.OCSPResponseBuilder.build_unsuccessful(ocsp.OCSPResponseStatus.TRY_LATER).public_bytes(Encoding.DER)
    for data in (later, b"", b"junk", bytes(100_000), response_of(leaf, root, digest=hashes.SHA224())):
        with pytest.raises(StatusInvalid):
            read(data, leaf, root)


def test_the_request_names_the_certificate(root):
    """What the background sends: one CertID and no nonce, so that the answer can be kept."""
    leaf = pki.qwac(root)
    request = ocsp.load_der_ocsp_request(write_request(parsed(leaf), parsed(root)))
    assert request.serial_number == leaf.certificate.serial_number
    assert len(request.extensions) == 0
