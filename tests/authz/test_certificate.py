"""The judgement of a client certificate, step by step, in the order of Berlin Group error handling."""

import base64
import hashlib
from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.certificate import (
    MAX_STANDINGS,
    Certificates,
    Identity,
    judge_certificate,
    open_trust,
    read_peer,
)
from authz.statements import write_statements
from model.instant import SECOND
from model.reason import TABLE, Reason
from model.verdict import Deny
from tests.authz import pki
from tests.authz.judging import judged, outcome, qwac

CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
POISON = x509.PrecertPoison()


def test_a_qwac_of_a_listed_issuer_is_an_identity(root):
    """All that the certificate says of its holder, with the x5t#S256 of RFC 8705."""
    leaf = pki.qwac(root, roles=("PSP_AI", "PSP_PI"))
    identity = judged(leaf, trust=open_trust(pki.profile_of(root)))
    assert isinstance(identity, Identity)
    assert identity.organisation == "PSDDE-BAFIN-123456"
    assert identity.psd2_roles == {"PSP_AI", "PSP_PI"}
    assert identity.authority == "DE-BAFIN"
    assert identity.authority_name == pki.AUTHORITY_NAME
    assert identity.common_name == "partner.example"
    assert identity.issuer == "CN=Test Root"
    assert identity.serial == format(leaf.certificate.serial_number, "x")
    assert base64.urlsafe_b64decode(identity.thumbprint + "=") == hashlib.sha256(leaf.der).digest()


def test_the_thumbprint_is_base64url_of_the_der_and_nothing_else(root):
    """C-03: neither hex, nor padded, nor plain base64, nor of the PEM, so that a cnf in such a form matches nobody."""
    for _ in range(20):  # until plain base64 differs from base64url
        leaf = pki.qwac(root)
        digest = hashlib.sha256(leaf.der).digest()
        if {b"+", b"/"} & {bytes((each,)) for each in base64.b64encode(digest)}:
            break
    thumbprint = outcome(leaf, root=root).thumbprint
    others = [
        digest.hex(),
        base64.urlsafe_b64encode(digest).decode(),
        base64.b64encode(digest).decode().rstrip("="),
        base64.urlsafe_b64encode(hashlib.sha256(leaf.pem.encode()).digest()).decode().rstrip("="),
    ]
    assert thumbprint == base64.urlsafe_b64encode(digest).decode().rstrip("=")
    assert thumbprint not in others


# The order of the checks


def test_expiry_is_told_from_want_of_trust():
    """The leaf's own dates come first: an expired partner reads CERTIFICATE_EXPIRED."""
    late = qwac(end=pki.MOMENT - pki.DAY / 2)
    assert outcome(late) is Reason.CERTIFICATE_EXPIRED
    assert TABLE[Reason.CERTIFICATE_EXPIRED].berlin == "CERTIFICATE_EXPIRED"
    early = qwac(start=pki.MOMENT + pki.DAY)
    assert outcome(early) is Reason.CERTIFICATE_NOT_YET_VALID


def test_the_clock_is_asked_on_every_request(root):
    """A remembered verdict ends with the certificate, to the nanosecond, and does not start before it."""
    leaf = pki.qwac(root, end=pki.MOMENT)
    trust = open_trust(pki.profile_of(root))
    assert isinstance(judged(leaf, trust=trust), Identity)
    assert isinstance(judged(leaf, trust=trust, now=pki.NOW + SECOND - 1), Identity)
    assert judged(leaf, trust=trust, now=pki.NOW + SECOND).reason is Reason.CERTIFICATE_EXPIRED
    assert isinstance(judged(leaf, trust=trust), Identity)
    assert judged(leaf, trust=trust, now=pki.NOW - 10**16).reason is Reason.CERTIFICATE_NOT_YET_VALID


def test_another_trust_store_judges_anew(root):
    """Pitfall 31, CVE-2022-21654: an anchor that was taken out ends connections that are open already."""
    leaf = pki.qwac(root)
    assert isinstance(outcome(leaf, root=root), Identity)
    assert outcome(leaf, root=pki.authority("Other")) is Reason.CERTIFICATE_UNTRUSTED


def test_an_issuer_s_certificate_is_no_client(root):
    """A CA that presents itself is refused by its usage."""
    leaf = pki.authority("Middle", root)
    assert outcome(leaf, root=root) is Reason.CERTIFICATE_USAGE


@pytest.mark.parametrize(
    "usages", [(SERVER,), (ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,), (x509.ObjectIdentifier("0.4.0.194115.1.0"),)]
)
def test_an_extended_key_usage_without_client_auth_is_refused(usages):
    """Pitfall 30, and 2-QWACs (id-kp-tls-binding), which never authenticate TLS."""
    assert outcome(qwac(usages=usages)) is Reason.CERTIFICATE_USAGE


def test_the_extended_key_usage_may_be_absent_unless_demanded():
    """With clientAuth among others it passes; absent, it passes unless the profile demands it."""
    assert isinstance(outcome(qwac(usages=(SERVER, CLIENT))), Identity)
    assert isinstance(outcome(qwac(usages=None)), Identity)
    assert outcome(qwac(usages=None), require_eku=True) is Reason.CERTIFICATE_USAGE


def test_the_key_usage_must_allow_signatures():
    """TLS 1.3 clients sign; a key usage without digitalSignature forbids it, none at all does not."""
    assert outcome(qwac(key_usage=("key_encipherment",))) is Reason.CERTIFICATE_USAGE
    assert isinstance(outcome(qwac(key_usage=None)), Identity)


def test_precertificates_and_unknown_critical_extensions_are_refused():
    """RFC 6962 poison, and whatever demands to be understood and is not."""
    odd = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")
    assert outcome(qwac(extra=[(POISON, True)])) is Reason.CERTIFICATE_USAGE
    assert outcome(qwac(extra=[(odd, True)])) is Reason.CERTIFICATE_USAGE
    assert isinstance(outcome(qwac(extra=[(odd, False)])), Identity)


def test_missing_critical_and_malformed_statements_have_their_reasons():
    """C-01 (f): a certificate for eIDAS only carries no PSD2 statement."""
    compliance_and_type = bytes.fromhex("301f3008060604008e4601013013060604008e4601063009060704008e46010603")
    assert outcome(qwac(roles=None)) is Reason.CERTIFICATE_STATEMENTS_MISSING
    assert outcome(qwac(statements=compliance_and_type)) is Reason.CERTIFICATE_STATEMENTS_MISSING
    assert outcome(qwac(critical=True)) is Reason.CERTIFICATE_STATEMENTS_MALFORMED
    assert outcome(qwac(statements=b"\x30\x80")) is Reason.CERTIFICATE_STATEMENTS_MALFORMED


def test_a_seal_certificate_is_no_website_certificate():
    """Pitfall 33: a QSEAL is for signatures, never for TLS; two types are no type."""
    seal = write_statements(["PSP_AI"], "BaFin", "DE-BAFIN", "eseal")
    assert outcome(qwac(statements=seal)) is Reason.CERTIFICATE_TYPE
    types = "3012060704008e46010602060704008e46010603"
    two = bytes.fromhex("30283008060604008e460101301c060604008e460106" + types)
    assert outcome(qwac(statements=two)) is Reason.CERTIFICATE_TYPE


def test_a_certificate_that_is_not_qualified_is_refused():
    """QcCompliance is what makes it qualified."""
    plain = write_statements(["PSP_AI"], "BaFin", "DE-BAFIN", compliance=False)
    assert outcome(qwac(statements=plain)) is Reason.CERTIFICATE_NOT_QUALIFIED


@pytest.mark.parametrize("policy", ["0.4.0.194112.1.4", "0.4.0.194112.1.5", "0.4.0.194112.1.6", "0.4.0.19495.3.1"])
def test_each_policy_of_qualified_website_certificates_is_enough(policy):
    """The PSD2 policy is optional and, where it stands alone, includes one of the others."""
    assert isinstance(outcome(qwac(policies=(policy, "1.2.3"))), Identity)


def test_other_policies_count_only_where_the_document_names_them():
    """EV alone makes no QWAC."""
    assert outcome(qwac(policies=("2.23.140.1.1",))) is Reason.CERTIFICATE_POLICY
    assert outcome(qwac(policies=None)) is Reason.CERTIFICATE_POLICY
    assert isinstance(outcome(qwac(policies=("2.23.140.1.1",)), policies=("2.23.140.1.1",)), Identity)


def test_each_defect_of_the_psd2_statement_has_a_reason_of_its_own():
    """C-01: NCA id without country, another authority, foreign scheme; never an exception, each told apart."""
    assert outcome(qwac(authority_id="BE")) is Reason.CERTIFICATE_AUTHORITY_ID
    assert outcome(qwac(authority_id="ES-BE")) is Reason.CERTIFICATE_ORGANISATION_ID
    assert outcome(qwac(organisations=("VATES-A123",))) is Reason.CERTIFICATE_ORGANISATION_ID
    assert outcome(qwac(organisations=())) is Reason.CERTIFICATE_ORGANISATION_ID
    two = ("PSDDE-BAFIN-123456", "PSDDE-BAFIN-123456")
    assert outcome(qwac(organisations=two)) is Reason.CERTIFICATE_ORGANISATION_ID
    assert isinstance(outcome(qwac(organisations=("VATES-A123",)), schemes=("PSD", "VAT")), Identity)


def test_account_servicing_implies_the_other_roles_only_by_policy():
    """An account servicing bank may act in any role: a switch of the document."""
    leaf = qwac(roles=("PSP_AS",))
    assert outcome(leaf).psd2_roles == {"PSP_AS"}
    assert outcome(leaf, account_servicing_implies_all=True).psd2_roles == {"PSP_AS", "PSP_AI", "PSP_PI", "PSP_IC"}


def test_the_block_list_knows_organisations_certificates_and_keys(root):
    """CERTIFICATE_BLOCKED, by organizationIdentifier, by issuer and serial number, or by the key."""
    leaf = pki.qwac(root, serial=0xABC)
    key = leaf.certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    for name in ("PSDDE-BAFIN-123456", "CN=Test Root#abc", f"spki:{hashlib.sha256(key).hexdigest()}"):
        assert outcome(leaf, root=root, blocked=(name,)) is Reason.CERTIFICATE_BLOCKED
    assert isinstance(outcome(leaf, root=root, blocked=("PSDDE-BAFIN-12345",)), Identity)


# The other profiles


def test_the_open_banking_profile_needs_no_compliance_and_no_names(root):
    """UK OBWAC: QcType and PSD2 statement only, the CN is the directory's organisation id, no SAN, any policy."""
    for authority, organisation in (("GB-FCA", "PSDGB-FCA-795791"), ("GB-OB", "PSDGB-OB-Unknown0015800001041ReAAI")):
        statements = write_statements(["PSP_AI", "PSP_PI"], "Open Banking", authority, compliance=False)
        leaf = pki.qwac(
            root,
            common_name="0015800001041ReAAI",
            organisations=(organisation,),
            statements=statements,
            policies=None,
            usages=(CLIENT, SERVER),
        )
        identity = outcome(leaf, root=root, profile="obwac")
        assert (identity.organisation, identity.psd2_roles) == (organisation, {"PSP_AI", "PSP_PI"})
        assert identity.common_name == "0015800001041ReAAI"
        assert outcome(leaf, root=root) is Reason.CERTIFICATE_NOT_QUALIFIED
        assert outcome(leaf, root=root, profile="obwac", policies=("1.2.3",)) is Reason.CERTIFICATE_POLICY


def test_legacy_transport_certificates_are_refused_where_psd2_is_asked_for(root):
    """Without ETSI statements nobody's role can be told."""
    leaf = pki.qwac(root, roles=None, policies=None)
    assert outcome(leaf, root=root, profile="obwac") is Reason.CERTIFICATE_STATEMENTS_MISSING


def test_plain_mutual_tls_asks_for_path_and_usage_only(root):
    """Statements, policies and identifiers are not looked at; roles are none."""
    leaf = pki.qwac(root, roles=None, policies=None, organisations=())
    identity = outcome(leaf, root=root, profile="mtls")
    assert (identity.organisation, identity.psd2_roles, identity.common_name) == ("", frozenset(), "partner.example")
    assert outcome(pki.qwac(root, usages=(SERVER,)), root=root, profile="mtls") is Reason.CERTIFICATE_USAGE
    assert outcome(pki.qwac(root, statements=b"junk"), root=root, profile="mtls").organisation == "PSDDE-BAFIN-123456"


# Trust stores and memory


@pytest.mark.parametrize("anchor", ["", "not PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_an_anchor_that_cannot_be_read_is_named(anchor):
    """A trust store is whole or refused, before it serves anybody."""
    profile = pki.profile_of(pki.authority())
    broken = type(profile)(profile="mtls", anchors=(*profile.anchors, anchor))
    with pytest.raises(ValueError, match="anchor 2"):
        open_trust(broken)


def test_one_anchor_may_hold_a_bundle(root):
    """A PEM file of several certificates is several anchors."""
    other = pki.authority("Other")
    profile = pki.profile_of(root)
    trust = open_trust(type(profile)(profile="qwac-psd2", anchors=(root.pem + other.pem,)))
    assert isinstance(judged(pki.qwac(other), trust=trust), Identity)


def test_verdicts_are_remembered_and_bounded(root):
    """The same object comes back for the same bytes; the oldest is forgotten when there are too many."""
    trust = open_trust(pki.profile_of(root))
    leaf = pki.qwac(root)
    assert judged(leaf, trust=trust) is judged(leaf, trust=trust)
    for number in range(MAX_STANDINGS + 10):
        junk = number.to_bytes(4, "big")
        judge_certificate(Certificates(junk, (), junk), trust, pki.NOW)
    assert len(trust.standings) == MAX_STANDINGS
    assert isinstance(judged(leaf, trust=trust), Identity)


def test_a_certificate_that_came_along_is_part_of_what_is_remembered(root):
    """The same leaf without its issuer is another case."""
    middle = pki.authority("Middle", root)
    leaf = pki.qwac(middle)
    trust = open_trust(pki.profile_of(root))
    assert isinstance(judged(leaf, middle, trust=trust), Identity)
    assert judged(leaf, trust=trust).reason is Reason.CERTIFICATE_UNTRUSTED
    assert isinstance(judged(leaf, middle, trust=trust), Identity)


@cache
def sample():
    root = pki.authority()
    return root, pki.qwac(root)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_mutation_of_a_certificate_raises_or_passes(data):
    """Any changed byte breaks the signature at the latest: never an exception, never an identity."""
    root, leaf = sample()
    der = bytearray(leaf.der)
    for _ in range(data.draw(st.integers(1, 4))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    verdict = judge_certificate(Certificates(bytes(der), (), bytes(der)), open_trust(pki.profile_of(root)), pki.NOW)
    assert isinstance(verdict, Deny) or bytes(der) == leaf.der


@settings(deadline=None)
@given(st.text(max_size=400))
def test_no_text_raises(text):
    """Whatever stands in the attribute is certificates or a reason."""
    assert isinstance(read_peer(text), Certificates | Deny)
