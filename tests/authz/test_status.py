"""Revocations: CRLs (RFC 5280 sections 5 and 6.3), OCSP (RFC 6960), and the policy that reads them."""

from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.x509 import ocsp

from authz.certificate import Identity, judge_certificate, open_trust, read_peer
from authz.crl import StatusInvalid
from authz.status import MAX_WANTED, Revocations
from model.instant import HOUR, SECOND
from model.reason import Reason
from tests.authz import pki
from tests.authz.revoking import HOURS, book_of, crl_of, parsed, reason_of, response_of

# The book


def put(book, data, leaf, issuer, now=pki.NOW):
    return book.put_response(data, parsed(leaf), parsed(issuer), now)


def test_a_response_stands_in_where_no_list_answers(root):
    """Good until its window ends; then unknown again."""
    leaf, book = pki.qwac(root), Revocations()
    assert reason_of(leaf, root, book) is Reason.CERTIFICATE_STATUS_UNKNOWN
    put(book, response_of(leaf, root), leaf, root)
    assert reason_of(leaf, root, book) is None
    assert reason_of(leaf, root, book, now=pki.NOW + HOUR + 1) is Reason.CERTIFICATE_STATUS_UNKNOWN


def test_either_source_revokes(root):
    """A list that says good does not outweigh a response that says revoked, nor the other way round."""
    leaf = pki.qwac(root)
    book = book_of(crl_of(root), issuers=[root])
    put(book, response_of(leaf, root, status=ocsp.OCSPCertStatus.REVOKED), leaf, root)
    assert reason_of(leaf, root, book) is Reason.CERTIFICATE_REVOKED
    book = book_of(crl_of(root, [leaf.certificate.serial_number]), issuers=[root])
    put(book, response_of(leaf, root), leaf, root)
    assert reason_of(leaf, root, book) is Reason.CERTIFICATE_REVOKED


def test_an_older_response_does_not_replace_a_newer_one(root):
    """A replayed "good" from before the revocation changes nothing."""
    leaf, book = pki.qwac(root), Revocations()
    put(book, response_of(leaf, root, status=ocsp.OCSPCertStatus.REVOKED), leaf, root)
    with pytest.raises(StatusInvalid):
        put(book, response_of(leaf, root, start=-2 * HOURS), leaf, root)
    assert reason_of(leaf, root, book) is Reason.CERTIFICATE_REVOKED


def test_certificates_of_unknown_status_are_wanted_once_and_within_bounds(root):
    """The background is told whom to ask about; a flood of certificates does not make the list grow."""
    book = Revocations()
    first = parsed(pki.qwac(root, serial=1))
    for _ in range(3):
        book.judge((first, parsed(root)), pki.NOW, hard=True)
    assert len(book.wanted) == 1
    for serial in range(MAX_WANTED + 10):
        book.judge((replace(first, serial=serial), parsed(root)), pki.NOW, hard=True)
    assert len(book.wanted) == MAX_WANTED


def test_a_response_is_asked_for_again_from_the_middle_of_its_window(root):
    """So that a hard policy never meets a gap between two responses."""
    leaf, book = pki.qwac(root), Revocations()
    put(book, response_of(leaf, root), leaf, root)
    reason_of(leaf, root, book, now=pki.NOW - SECOND)
    assert not book.wanted
    assert reason_of(leaf, root, book, now=pki.NOW + SECOND) is None
    assert len(book.wanted) == 1


def test_short_term_certificates_need_no_status(root):
    """valassured-ST-certs: they end before a revocation would be published."""
    marker = x509.UnrecognizedExtension(x509.ObjectIdentifier("0.4.0.194121.2.1"), b"\x05\x00")
    leaf, book = pki.qwac(root, extra=[(marker, False)]), Revocations()
    assert reason_of(leaf, root, book) is None
    assert not book.wanted


def test_a_short_term_certificate_that_was_revoked_all_the_same_is_refused(root):
    """The marker says that nobody has to publish a status, not that one may be passed over."""
    marker = x509.UnrecognizedExtension(x509.ObjectIdentifier("0.4.0.194121.2.1"), b"\x05\x00")
    leaf = pki.qwac(root, extra=[(marker, False)])
    listed = book_of(crl_of(root, [leaf.certificate.serial_number]), issuers=[root])
    assert reason_of(leaf, root, listed) is Reason.CERTIFICATE_REVOKED
    told = Revocations()
    put(told, response_of(leaf, root, status=ocsp.OCSPCertStatus.REVOKED), leaf, root)
    assert reason_of(leaf, root, told) is Reason.CERTIFICATE_REVOKED


@pytest.mark.parametrize(
    ("revocation", "expected"),
    [("off", None), ("soft", None), ("hard", Reason.CERTIFICATE_STATUS_UNKNOWN)],
)
def test_the_profile_decides_what_an_unknown_status_costs(root, revocation, expected):
    """Hard refuses, soft passes, off does not ask; without any book, hard still refuses."""
    trust = open_trust(pki.profile_of(root, revocation=revocation))
    peer = read_peer(pki.encoded(pki.qwac(root)))
    for status in (Revocations(), None):
        verdict = judge_certificate(peer, trust, pki.NOW, status)
        assert isinstance(verdict, Identity) if expected is None else verdict.reason is expected
        assert status is None or status.unchecked == (revocation == "soft")


def test_a_revocation_ends_a_remembered_verdict_at_once(root):
    """The book is asked on every request; only "off" never asks. Revoked comes before blocked."""
    leaf = pki.qwac(root)
    peer = read_peer(pki.encoded(leaf))
    revoked = book_of(crl_of(root, [leaf.certificate.serial_number]), issuers=[root])
    soft = open_trust(pki.profile_of(root, revocation="soft", blocked=("PSDDE-BAFIN-123456",)))
    assert judge_certificate(peer, soft, pki.NOW, Revocations()).reason is Reason.CERTIFICATE_BLOCKED
    assert judge_certificate(peer, soft, pki.NOW, revoked).reason is Reason.CERTIFICATE_REVOKED
    off = open_trust(pki.profile_of(root))
    assert isinstance(judge_certificate(peer, off, pki.NOW, revoked), Identity)
