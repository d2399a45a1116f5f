"""Certification paths: RFC 5280 section 6, from a leaf to a listed anchor."""

from ipaddress import ip_address, ip_network

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from authz.chain import MAX_SIGNATURES, Path, build_path
from authz.parsed import parse_certificate
from model.instant import SECOND
from model.reason import Reason
from tests.authz import pki


def parsed(issued):
    return parse_certificate(issued.der)


def path_of(leaf, *presented, anchors, now=pki.NOW):
    return build_path(parsed(leaf), [parsed(each) for each in presented], [parsed(each) for each in anchors], now)


def reason_of(*arguments, **options):
    return path_of(*arguments, **options).reason


def test_path_runs_through_presented_certificates_to_the_anchor():
    """The leaf comes first, the anchor last, and the path holds while all of them do."""
    root = pki.authority(end=pki.MOMENT + 5 * pki.DAY)
    middle = pki.authority("Middle", root, start=pki.MOMENT)
    leaf = pki.qwac(middle)
    path = path_of(leaf, middle, anchors=[root])
    assert [each.common_name for each in path.certificates] == ["partner.example", "Middle", "Test Root"]
    assert path.since == pki.NOW
    assert path.until == parsed(root).not_after


def test_an_issuing_ca_may_be_the_anchor_itself():
    """Trusted lists name issuing CAs, and Envoy hands on the leaf alone: no path to a root is asked for."""
    middle = pki.authority("Middle", pki.authority())
    assert isinstance(path_of(pki.qwac(middle), anchors=[middle]), Path)


def test_a_certificate_that_is_listed_itself_is_its_own_path():
    """A self-signed partner certificate that the operator pinned needs nothing above it."""
    leaf = pki.qwac(None)
    assert len(path_of(leaf, anchors=[leaf]).certificates) == 1


def test_a_stranger_is_untrusted():
    """Another root of the same name does not help: the signature decides."""
    root = pki.authority()
    other = pki.authority(keyed="p256/other")
    assert reason_of(pki.qwac(other), anchors=[root]) is Reason.CERTIFICATE_UNTRUSTED
    assert reason_of(pki.qwac(other), other, anchors=[root]) is Reason.CERTIFICATE_UNTRUSTED
    assert reason_of(pki.qwac(root), anchors=[]) is Reason.CERTIFICATE_UNTRUSTED


def test_the_right_one_of_two_issuers_of_one_name_is_found():
    """After a key change two anchors share a name."""
    old, new = pki.authority(keyed="p256/old"), pki.authority(keyed="p256/new")
    for issuer in (old, new):
        assert isinstance(path_of(pki.qwac(issuer), anchors=[old, new]), Path)


@pytest.mark.parametrize("kind", ["p256", "p384", "rsa2048", "ed25519"])
def test_issuers_of_every_strong_kind_of_key_are_accepted(kind):
    """RSA from 2048 bits, P-256 and up, Ed25519."""
    root = pki.authority(keyed=f"{kind}/root")
    assert isinstance(path_of(pki.qwac(root, keyed=f"{kind}/leaf"), anchors=[root]), Path)


@pytest.mark.parametrize("kind", ["rsa1024", "k256", "p224"])
def test_a_weak_key_is_named_weak_wherever_it_stands(kind):
    """In the leaf or in an issuer, the path is refused, and the detail says which kind of key it was."""
    root = pki.authority()
    assert reason_of(pki.qwac(root, keyed=f"{kind}/leaf"), anchors=[root]) is Reason.CERTIFICATE_WEAK
    weak = pki.authority("Weak", root, keyed=f"{kind}/ca")
    assert reason_of(pki.qwac(weak), weak, anchors=[root]) is Reason.CERTIFICATE_WEAK


def test_a_signature_over_a_short_digest_is_weak_but_for_the_anchor_s_own():
    """Nobody relies on an anchor's signature of itself."""
    root = pki.authority()
    weak = pki.qwac(root, digest=hashes.SHA224())
    assert reason_of(weak, anchors=[root]) is Reason.CERTIFICATE_WEAK
    old = pki.authority(digest=hashes.SHA224())
    assert isinstance(path_of(pki.qwac(old), anchors=[old]), Path)


def test_expired_and_coming_issuers_have_reasons_of_their_own():
    """Time is told from trust, for the issuers as for the leaf."""
    late = pki.authority(end=pki.MOMENT - pki.DAY / 2)
    assert reason_of(pki.qwac(late), anchors=[late]) is Reason.CERTIFICATE_EXPIRED
    early = pki.authority(start=pki.MOMENT + pki.DAY)
    assert reason_of(pki.qwac(early), anchors=[early]) is Reason.CERTIFICATE_NOT_YET_VALID


def test_a_renewed_issuer_takes_over_from_its_expired_self():
    """Both have one name and one key; the path that holds now is found."""
    root = pki.authority()
    old = pki.authority("Middle", root, end=pki.MOMENT - pki.DAY / 2)
    new = pki.authority("Middle", root)
    assert isinstance(path_of(pki.qwac(new), old, new, anchors=[root]), Path)
    assert isinstance(path_of(pki.qwac(new), new, old, anchors=[root]), Path)


def test_validity_holds_through_the_whole_last_second():
    """RFC 5280: notBefore and notAfter are included."""
    root = pki.authority(end=pki.MOMENT)
    leaf = pki.qwac(root, end=pki.MOMENT)
    assert isinstance(path_of(leaf, anchors=[root], now=pki.NOW + SECOND - 1), Path)
    assert reason_of(leaf, anchors=[root], now=pki.NOW + SECOND) is Reason.CERTIFICATE_EXPIRED


def test_a_leaf_cannot_issue():
    """Neither without basic constraints nor without the key usage keyCertSign."""
    root = pki.authority()
    partner = pki.qwac(root)
    assert reason_of(pki.qwac(partner), partner, anchors=[root]) is Reason.CERTIFICATE_UNTRUSTED
    toothless = pki.issue(
        pki.name_of("Toothless"),
        root,
        extensions=[(x509.BasicConstraints(ca=True, path_length=None), True), (pki.usage("crl_sign"), True)],
    )
    assert reason_of(pki.qwac(toothless), toothless, anchors=[root]) is Reason.CERTIFICATE_UNTRUSTED


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (ExtendedKeyUsageOID.SERVER_AUTH, False),
        (ExtendedKeyUsageOID.CLIENT_AUTH, True),
        (ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE, True),
    ],
)
def test_a_ca_for_servers_only_issues_no_clients(usage, expected):
    """The browsers' new hierarchies are for serverAuth alone, and bind what stands below them."""
    root = pki.authority(extra=[(x509.ExtendedKeyUsage([usage]), False)])
    assert isinstance(path_of(pki.qwac(root), anchors=[root]), Path) is expected


def test_path_length_is_counted_without_the_leaf():
    """pathLenConstraint 0 allows leaves and no CA below."""
    root = pki.authority(path_length=0)
    assert isinstance(path_of(pki.qwac(root), anchors=[root]), Path)
    middle = pki.authority("Middle", root)
    assert reason_of(pki.qwac(middle), middle, anchors=[root]) is Reason.CERTIFICATE_UNTRUSTED


def test_paths_end_at_five_issuers():
    """A longer path is no path."""
    issuers = [pki.authority()]
    for number in range(5):
        issuers.append(pki.authority(f"CA {number}", issuers[-1]))
    assert isinstance(path_of(pki.qwac(issuers[4]), *issuers[1:], anchors=issuers[:1]), Path)
    assert reason_of(pki.qwac(issuers[5]), *issuers[1:], anchors=issuers[:1]) is Reason.CERTIFICATE_UNTRUSTED


def test_a_ca_with_an_unknown_critical_extension_issues_nothing():
    """What it demands cannot be met by those who do not understand it."""
    odd = (x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00"), True)
    root = pki.authority(extra=[odd])
    assert reason_of(pki.qwac(root), anchors=[root]) is Reason.CERTIFICATE_UNTRUSTED


def test_a_crowd_of_namesakes_is_not_worked_through():
    """The number of signatures checked for one leaf is bounded, whatever comes along."""
    root = pki.authority()
    crowd = [pki.authority(f"Test Root{' ' * (each + 1)}", keyed=f"p256/{each % 3}") for each in range(MAX_SIGNATURES)]
    stranger = pki.qwac(pki.authority(keyed="p256/stranger"))
    assert reason_of(stranger, *crowd, anchors=[root]) is Reason.CERTIFICATE_UNTRUSTED


def test_circles_of_issuers_end():
    """Two CAs that signed each other lead nowhere and stop there."""
    first = pki.authority("First", pki.authority("Second"))
    second = pki.authority("Second", pki.authority("First"))
    assert reason_of(pki.qwac(first), first, second, anchors=[pki.authority()]) is Reason.CERTIFICATE_UNTRUSTED


def test_names_are_compared_as_people_read_them():
    """RFC 5280 section 7.1: case, runs of spaces and string types do not count."""
    root = pki.authority("Test  ROOT", keyed="p256/Test Root")
    assert isinstance(path_of(pki.qwac(pki.authority("test root", keyed="p256/Test Root")), anchors=[root]), Path)


def test_a_ca_may_demand_a_policy():
    """policyConstraints with requireExplicitPolicy 0 below a CA: RFC 5280 section 4.2.1.11."""
    root = pki.authority()
    demand = x509.PolicyConstraints(require_explicit_policy=0, inhibit_policy_mapping=None)
    named = x509.CertificatePolicies([x509.PolicyInformation(x509.ObjectIdentifier(pki.QEVCP_W), None)])
    middle = pki.authority("Middle", root, extra=[(demand, True), (named, False)])
    assert isinstance(path_of(pki.qwac(middle), middle, anchors=[root]), Path)
    assert reason_of(pki.qwac(middle, policies=("1.2.3",)), middle, anchors=[root]) is Reason.CERTIFICATE_UNTRUSTED
    assert reason_of(pki.qwac(middle, policies=None), middle, anchors=[root]) is Reason.CERTIFICATE_UNTRUSTED


def constrained(permitted=None, excluded=None):
    constraints = x509.NameConstraints(permitted_subtrees=permitted, excluded_subtrees=excluded)
    return pki.authority(extra=[(constraints, True)])


def alternative(*names):
    return [(x509.SubjectAlternativeName(names), False)]


DNS, IP, MAIL, URI = x509.DNSName, x509.IPAddress, x509.RFC822Name, x509.UniformResourceIdentifier


@pytest.mark.parametrize(
    ("subtree", "inside", "outside"),
    [
        (DNS("example.com"), [DNS("example.com"), DNS("A.Example.COM"), DNS("*.example.com")], [DNS("badexample.com")]),
        (
            IP(ip_network("10.0.0.0/8")),
            [IP(ip_address("10.9.8.7"))],
            [IP(ip_address("11.0.0.1")), IP(ip_address("::1"))],
        ),
        (MAIL("example.com"), [MAIL("a@example.com")], [MAIL("a@sub.example.com"), MAIL("a@example.org")]),
        (MAIL(".example.com"), [MAIL("a@sub.example.com")], [MAIL("a@example.com")]),
        (MAIL("a@example.com"), [MAIL("a@EXAMPLE.com")], [MAIL("b@example.com")]),
        (URI(".example.com"), [URI("https://a.example.com/x")], [URI("https://example.com"), URI("https://10.0.0.1/")]),
        (URI("example.com"), [URI("https://example.com:8443/")], [URI("https://example.com@evil.org/"), URI("urn:x")]),
    ],
)
def test_names_keep_to_the_constraints_of_the_ca(subtree, inside, outside):
    """RFC 5280 section 4.2.1.10, for what is permitted; a name of that kind outside is refused."""
    root = constrained(permitted=[subtree])
    for name in inside:
        assert isinstance(path_of(pki.qwac(root, extra=alternative(name)), anchors=[root]), Path), name
    for name in outside:
        assert reason_of(pki.qwac(root, extra=alternative(name)), anchors=[root]) is Reason.CERTIFICATE_UNTRUSTED, name


@pytest.mark.parametrize("name", ["secret.example.com", "*.example.com", "a.secret.example.com"])
def test_a_wildcard_that_covers_an_excluded_host_is_refused(name):
    """Pitfall 32, CVE-2026-34073: the excluded host lies among those that the wildcard stands for."""
    root = constrained(excluded=[DNS("secret.example.com")])
    assert reason_of(pki.qwac(root, extra=alternative(DNS(name))), anchors=[root]) is Reason.CERTIFICATE_UNTRUSTED
    assert isinstance(path_of(pki.qwac(root, extra=alternative(DNS("open.example.com"))), anchors=[root]), Path)


def test_a_self_issued_ca_is_free_of_the_constraints_of_the_one_above_it():
    """It is the same CA with another key; the leaf below it is not free."""
    root = constrained(permitted=[DNS("example.com")])
    again = pki.issue(
        root.certificate.subject,
        root,
        keyed="p256/again",
        extensions=[
            (x509.BasicConstraints(ca=True, path_length=None), True),
            (x509.SubjectAlternativeName([DNS("elsewhere.org")]), False),
        ],
    )
    good = pki.qwac(again, extra=alternative(DNS("a.example.com")))
    assert isinstance(path_of(good, again, anchors=[root]), Path)
    bad = pki.qwac(again, extra=alternative(DNS("elsewhere.org")))
    assert reason_of(bad, again, anchors=[root]) is Reason.CERTIFICATE_UNTRUSTED


def test_a_mail_address_in_the_subject_keeps_to_the_constraints():
    """Where no alternative name holds one (RFC 5280 section 4.2.1.10)."""
    root = constrained(permitted=[MAIL("example.com")])
    for address, expected in (("a@example.com", True), ("a@example.org", False)):
        subject = x509.Name([x509.NameAttribute(NameOID.EMAIL_ADDRESS, address)])
        leaf = pki.issue(subject, root, extensions=pki.leaf_extensions())
        assert isinstance(path_of(leaf, anchors=[root]), Path) is expected


def test_the_subject_keeps_to_directory_constraints():
    """They speak of the subject name itself."""
    base = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "partner.example")])
    root = constrained(permitted=[x509.DirectoryName(base)])
    assert isinstance(path_of(pki.qwac(root), anchors=[root]), Path)
    other = pki.qwac(root, common_name="other.example")
    assert reason_of(other, anchors=[root]) is Reason.CERTIFICATE_UNTRUSTED


def test_a_kind_of_constraint_that_is_not_understood_refuses_names_of_its_kind():
    """Failing closed costs those who use such names; it opens nothing."""
    root = constrained(permitted=[x509.RegisteredID(x509.ObjectIdentifier("1.2.3"))])
    odd = pki.qwac(root, extra=alternative(x509.RegisteredID(x509.ObjectIdentifier("1.2.3"))))
    assert reason_of(odd, anchors=[root]) is Reason.CERTIFICATE_UNTRUSTED
    assert isinstance(path_of(pki.qwac(root), anchors=[root]), Path)
