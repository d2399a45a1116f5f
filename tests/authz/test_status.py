"""Revocations: CRLs (RFC 5280 sections 5 and 6.3), OCSP (RFC 6960), and the policy that reads them."""

from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID

from authz.certificate import Identity, judge_certificate, open_trust, read_peer
from authz.crl import MAX_CRL, StatusInvalid, read_crl
from authz.ocsp import read_response, write_request
from authz.parsed import parse_certificate
from authz.status import MAX_WANTED, Revocations
from model.instant import HOUR, SECOND
from model.reason import Reason
from tests.authz import pki

HOURS = timedelta(hours=1)
Flags = x509.ReasonFlags
URL = x509.UniformResourceIdentifier("http://crl.example/a")


def parsed(issued):
    return parse_certificate(issued.der)


def crl_of(
    issuer, revoked=(), *, start=-HOURS, end=HOURS, number=1, extensions=(), entries=(), keyed=None, digest=None
):
    """A list, DER. `revoked` are serial numbers, `entries` pairs of one and its extensions."""
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.certificate.subject)
        .last_update(pki.MOMENT + start)
        .next_update(pki.MOMENT + end)
        .add_extension(x509.CRLNumber(number), critical=False)
    )
    for value, critical in extensions:
        builder = builder.add_extension(value, critical)
    for serial, values in [*((each, ()) for each in revoked), *entries]:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(pki.MOMENT - HOURS)
        for value, critical in values:
            entry = entry.add_extension(value, critical)
        builder = builder.add_revoked_certificate(entry.build())
    return pki.sign(builder, pki.key(keyed) if keyed else issuer.key, digest).public_bytes(Encoding.DER)


def scope(**options):
    every = {
        "full_name": None,
        "relative_name": None,
        "only_contains_user_certs": False,
        "only_contains_ca_certs": False,
        "only_some_reasons": None,
        "indirect_crl": False,
        "only_contains_attribute_certs": False,
    }
    return (x509.IssuingDistributionPoint(**(every | options)), True)


@pytest.fixture
def root():
    return pki.authority()


def book_of(*lists, issuers):
    book = Revocations()
    for number, data in enumerate(lists):
        book.put_crl(f"list {number}", read_crl(data, [parsed(each) for each in issuers]))
    return book


def reason_of(leaf, root, book, *, now=pki.NOW, hard=True):
    refusal = book.judge((parsed(leaf), parsed(root)), now, hard=hard)
    return refusal and refusal.reason


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


# OCSP


def response_of(
    leaf,
    issuer,
    *,
    signer=None,
    certificates=(),
    status=ocsp.OCSPCertStatus.GOOD,
    start=-HOURS,
    end=HOURS,
    algorithm=None,
    by_key=False,
    digest=None,
    about=None,
):
    signer = signer or issuer
    revoked = status is ocsp.OCSPCertStatus.REVOKED
    builder = ocsp.OCSPResponseBuilder().add_response(
        cert=(about or leaf).certificate,
        issuer=issuer.certificate,
        algorithm=algorithm or hashes.SHA1(),
        cert_status=status,
        this_update=pki.MOMENT + start,
        next_update=None if end is None else pki.MOMENT + end,
        revocation_time=pki.MOMENT - HOURS if revoked else None,
        revocation_reason=None,
    )
    encoding = ocsp.OCSPResponderEncoding.HASH if by_key else ocsp.OCSPResponderEncoding.NAME
    builder = builder.responder_id(encoding, signer.certificate)
    if certificates:
        builder = builder.certificates([each.certificate for each in certificates])
    return pki.sign(builder, signer.key, digest).public_bytes(Encoding.DER)


def responder(issuer, *, usages=(ExtendedKeyUsageOID.OCSP_SIGNING,), **options):
    extensions = [(pki.usage("digital_signature"), True)]
    if usages:
        extensions.append((x509.ExtendedKeyUsage(usages), False))
    return pki.issue(pki.name_of("Responder"), issuer, keyed="p256/responder", extensions=extensions, **options)


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


@pytest.mark.parametrize(("start", "end"), [(-2 * HOURS, -HOURS), (HOURS, 2 * HOURS), (-HOURS, None)])
def test_a_response_outside_its_window_is_refused(root, start, end):
    """Yesterday's, tomorrow's, and one that would hold for ever."""
    leaf = pki.qwac(root)
    with pytest.raises(StatusInvalid):
        read(response_of(leaf, root, start=start, end=end), leaf, root)


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
    assert reason_of(pki.qwac(root, extra=[(marker, False)]), root, Revocations()) is None


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
