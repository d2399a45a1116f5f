"""Revocation lists are believed within their scope, their time and their signature (RFC 5280 section 6.3)."""

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from authz.crl import MAX_CRL, StatusInvalid, read_crl
from model.instant import HOUR
from model.reason import Reason
from tests.authz import pki
from tests.authz.revoking import HOURS, book_of, crl_of, parsed, reason_of, scope

Flags = x509.ReasonFlags
URL = x509.UniformResourceIdentifier("http://crl.example/a")


# CRLs


def test_an_empty_list_revokes_nobody(root):
    """C-08 (a): a fresh list with no entries lets everybody in."""
    assert reason_of(pki.qwac(root), root, book_of(crl_of(root), issuers=[root])) is None


def test_a_list_past_its_time_fails_closed_with_a_reason_and_a_gauge(root):
    """C-08 (b): a distinct reason, and seconds that go negative before people call."""
    leaf = pki.qwac(root)
    book = book_of(crl_of(root), issuers=[root])
    assert book.seconds_left(pki.NOW) == {"list 0": 3600}
    assert reason_of(leaf, root, book, now=pki.NOW + HOUR) is None
    assert reason_of(leaf, root, book, now=pki.NOW + HOUR + 1) is Reason.CERTIFICATE_STATUS_UNKNOWN
    assert reason_of(leaf, root, book, now=pki.NOW + HOUR + 1, hard=False) is None
    assert book.seconds_left(pki.NOW + 2 * HOUR) == {"list 0": -3600}


def test_a_list_of_another_ca_and_an_empty_file_are_refused(root):
    """C-08 (c), (d): whatever was held before stays."""
    leaf = pki.qwac(root)
    book = book_of(crl_of(root, [leaf.certificate.serial_number]), issuers=[root])
    stranger = crl_of(pki.authority(keyed="p256/stranger"))
    for data in (stranger, b"", b" \n", b"junk", b"-----BEGIN X509 CRL-----\n"):
        with pytest.raises(StatusInvalid):
            book.put_crl("list 0", read_crl(data, [parsed(root)]))
    assert reason_of(leaf, root, book) is Reason.CERTIFICATE_REVOKED


def test_a_list_for_the_issuing_ca_alone_locks_nobody_out():
    """C-09: root > intermediate > leaves A and B, and only the intermediate's list is configured."""
    root = pki.authority()
    middle = pki.authority("Middle", root)
    good, bad = pki.qwac(middle), pki.qwac(middle)
    book = book_of(crl_of(middle, [bad.certificate.serial_number]), issuers=[root, middle])
    for leaf, expected in ((good, None), (bad, Reason.CERTIFICATE_REVOKED)):
        refusal = book.judge((parsed(leaf), parsed(middle), parsed(root)), pki.NOW, hard=True)
        assert (refusal and refusal.reason) is expected


def test_a_revoked_intermediate_refuses_those_below_it():
    """Every certificate below the anchor is looked at, and a list of the root that is held must answer."""
    root = pki.authority()
    middle = pki.authority("Middle", root)
    path = tuple(parsed(each) for each in (pki.qwac(middle), middle, root))
    book = book_of(crl_of(middle), crl_of(root, [middle.certificate.serial_number]), issuers=[root, middle])
    assert book.judge(path, pki.NOW, hard=False).reason is Reason.CERTIFICATE_REVOKED
    stale = book_of(crl_of(middle), crl_of(root, end=-HOURS / 2), issuers=[root, middle])
    assert stale.judge(path, pki.NOW, hard=True).reason is Reason.CERTIFICATE_STATUS_UNKNOWN


def test_a_revoked_certificate_stays_refused_when_the_list_is_stale(root):
    """What is known is not forgotten, soft or hard."""
    leaf = pki.qwac(root)
    book = book_of(crl_of(root, [leaf.certificate.serial_number]), issuers=[root])
    for hard in (True, False):
        assert reason_of(leaf, root, book, now=pki.NOW + 100 * HOUR, hard=hard) is Reason.CERTIFICATE_REVOKED


def test_a_list_of_tomorrow_says_nothing_today(root):
    """thisUpdate <= now."""
    book = book_of(crl_of(root, start=HOURS / 2), issuers=[root])
    assert reason_of(pki.qwac(root), root, book) is Reason.CERTIFICATE_STATUS_UNKNOWN


def test_a_list_signed_by_a_clock_that_is_seconds_ahead_is_in_force(root):
    """An authority that has just published its list must not lock everybody out for the difference."""
    ahead = crl_of(root, start=timedelta(seconds=5))
    assert reason_of(pki.qwac(root), root, book_of(ahead, issuers=[root])) is None


def test_a_hold_counts_as_revoked(root):
    """certificateHold may be lifted; until then it is no good certificate."""
    leaf = pki.qwac(root)
    hold = (leaf.certificate.serial_number, [(x509.CRLReason(Flags.certificate_hold), False)])
    assert reason_of(leaf, root, book_of(crl_of(root, entries=[hold]), issuers=[root])) is Reason.CERTIFICATE_REVOKED


@pytest.mark.parametrize(
    ("options", "covers"),
    [
        ({"only_contains_user_certs": True}, True),
        ({"only_contains_ca_certs": True}, False),
        ({"only_contains_attribute_certs": True}, False),
        ({"full_name": [URL]}, True),
        ({"full_name": [x509.UniformResourceIdentifier("http://crl.example/b")]}, False),
        ({"only_some_reasons": frozenset({Flags.key_compromise})}, False),
    ],
)
def test_a_list_answers_for_what_its_distribution_point_covers(root, options, covers):
    """A partition of a CA's lists says nothing of certificates of another partition."""
    points = x509.CRLDistributionPoints([x509.DistributionPoint([URL], None, None, None)])
    leaf = pki.qwac(root, extra=[(points, False)])
    book = book_of(crl_of(root, extensions=[scope(**options)]), issuers=[root])
    assert reason_of(leaf, root, book) is (None if covers else Reason.CERTIFICATE_STATUS_UNKNOWN)


def test_lists_of_some_reasons_answer_together(root):
    """Each may revoke by itself; only together do they say that nobody did."""
    leaf = pki.qwac(root)
    some = frozenset({Flags.key_compromise, Flags.ca_compromise})
    other = frozenset(x509.ReasonFlags) - some - {Flags.unspecified, Flags.remove_from_crl}
    first = crl_of(root, extensions=[scope(only_some_reasons=some)])
    second = crl_of(root, extensions=[scope(only_some_reasons=other)])
    assert reason_of(leaf, root, book_of(first, issuers=[root])) is Reason.CERTIFICATE_STATUS_UNKNOWN
    assert reason_of(leaf, root, book_of(first, second, issuers=[root])) is None
    bad = crl_of(root, [leaf.certificate.serial_number], extensions=[scope(only_some_reasons=some)])
    assert reason_of(leaf, root, book_of(bad, issuers=[root])) is Reason.CERTIFICATE_REVOKED


def unusable(root):
    odd = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")
    other = x509.CertificateIssuer([x509.DirectoryName(pki.name_of("Other"))])
    yield crl_of(root, extensions=[(odd, True)])
    yield crl_of(root, entries=[(5, [(odd, True)])])
    yield crl_of(root, extensions=[scope(indirect_crl=True)])
    yield crl_of(root, entries=[(5, [(other, True)])])
    yield crl_of(root, digest=hashes.SHA224())
    yield crl_of(root, keyed="p256/forger")


def test_what_cannot_be_understood_is_not_used(root):
    """Unknown critical extensions, indirect lists, weak and wrong signatures."""
    for data in unusable(root):
        with pytest.raises(StatusInvalid):
            read_crl(data, [parsed(root)])


def test_a_ca_without_the_key_usage_for_lists_signs_none():
    """keyUsage without cRLSign."""
    root = pki.issue(
        pki.name_of("Test Root"),
        extensions=[(x509.BasicConstraints(ca=True, path_length=None), True), (pki.usage("key_cert_sign"), True)],
    )
    with pytest.raises(StatusInvalid):
        read_crl(crl_of(root), [parsed(root)])


def test_an_unknown_extension_that_is_not_critical_is_ignored(root):
    """It promises nothing and demands nothing."""
    odd = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")
    assert reason_of(pki.qwac(root), root, book_of(crl_of(root, extensions=[(odd, False)]), issuers=[root])) is None


def test_a_delta_adds_to_its_base_and_to_nothing_else(root):
    """RFC 5280 section 5.2.4: revocations and removals since the base; alone it says nothing."""
    leaf = pki.qwac(root)
    serial = leaf.certificate.serial_number
    delta = crl_of(root, [serial], number=5, extensions=[(x509.DeltaCRLIndicator(3), True)])
    removal = (serial, [(x509.CRLReason(Flags.remove_from_crl), False)])
    lifted = crl_of(root, number=5, entries=[removal], extensions=[(x509.DeltaCRLIndicator(3), True)])
    held = crl_of(root, [serial], number=3)
    assert reason_of(leaf, root, book_of(delta, issuers=[root])) is Reason.CERTIFICATE_STATUS_UNKNOWN
    assert reason_of(leaf, root, book_of(crl_of(root, number=3), delta, issuers=[root])) is Reason.CERTIFICATE_REVOKED
    assert reason_of(leaf, root, book_of(held, lifted, issuers=[root])) is None
    assert reason_of(leaf, root, book_of(crl_of(root, [serial], number=2), lifted, issuers=[root])) is not None


def test_a_delta_past_its_time_still_revokes_and_lifts_nothing(root):
    """A delta that its issuer stopped to renew must not give back what it took, while its base is in force."""
    leaf = pki.qwac(root)
    serial = leaf.certificate.serial_number
    late = {"number": 5, "end": -HOURS / 2, "extensions": [(x509.DeltaCRLIndicator(3), True)]}
    base, held = crl_of(root, number=3), crl_of(root, [serial], number=3)
    lifted = crl_of(root, entries=[(serial, [(x509.CRLReason(Flags.remove_from_crl), False)])], **late)
    assert reason_of(leaf, root, book_of(base, crl_of(root, **late), issuers=[root])) is None
    for lists in ((base, crl_of(root, [serial], **late)), (held, lifted)):
        assert reason_of(leaf, root, book_of(*lists, issuers=[root])) is Reason.CERTIFICATE_REVOKED


def test_a_source_cannot_go_back_to_an_older_list(root):
    """An old list replayed by whoever serves it would forget revocations."""
    leaf = pki.qwac(root)
    book = book_of(crl_of(root, [leaf.certificate.serial_number], number=7), issuers=[root])
    for old in (crl_of(root, number=6), crl_of(root, number=7, start=-2 * HOURS)):
        with pytest.raises(StatusInvalid):
            book.put_crl("list 0", read_crl(old, [parsed(root)]))
    assert reason_of(leaf, root, book) is Reason.CERTIFICATE_REVOKED
    book.put_crl("list 0", read_crl(crl_of(root, number=8), [parsed(root)]))
    assert reason_of(leaf, root, book) is None


def test_an_authority_with_a_new_key_may_number_its_lists_anew(root):
    """Else its source would be stuck on the last list of the old key until that has run out, and then for good."""
    renewed = pki.authority(keyed="p256/renewed")
    issuers = [parsed(root), parsed(renewed)]
    book = book_of(crl_of(root, number=900), issuers=[root])
    with pytest.raises(StatusInvalid):
        book.put_crl("list 0", read_crl(crl_of(renewed, number=1, start=-2 * HOURS), issuers))
    book.put_crl("list 0", read_crl(crl_of(renewed, number=1, start=-HOURS / 2), issuers))
    assert book.lists["list 0"].number == 1


def test_a_list_beyond_the_cap_is_not_parsed(root):
    """A hostile or broken source costs memory up to the cap and no time."""
    with pytest.raises(StatusInvalid, match="too large"):
        read_crl(bytes(MAX_CRL + 1), [parsed(root)])
    with pytest.raises(StatusInvalid, match="too large"):
        read_crl(b"x" * (MAX_CRL + 1), [parsed(root)])


def test_pem_lists_are_read_too(root):
    """Files come in either form."""
    crl = x509.load_der_x509_crl(crl_of(root)).public_bytes(Encoding.PEM)
    assert read_crl(b"\n" + crl, [parsed(root)]).number == 1
