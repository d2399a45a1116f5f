"""What a profile demands of the leaf, once its path holds: the steps are written down once, as one tuple each.

The order is that of Berlin Group error handling: usage, statements, qualification, policies, PSD2.
"""

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from authz.organisation import PSD2_ROLES, judge_authority, judge_organisation, read_roles
from authz.parsed import CLIENT_AUTH, Parsed
from authz.statements import TYPES, Statements, read_statements
from model.instant import Instant
from model.reason import Reason
from model.snapshot import CertificateProfile
from model.verdict import Deny

FOREVER: Instant = 2**63 - 1
"""Later than any certificate's end: the year 2262 is the last that counts in 64 bits of nanoseconds."""

CT_POISON = "1.3.6.1.4.1.11129.2.4.3"
WEB_POLICIES = frozenset({"0.4.0.194112.1.4", "0.4.0.194112.1.5", "0.4.0.194112.1.6", "0.4.0.19495.3.1"})
"""QEVCP-w, QNCP-w, QNCP-w-gen (ETSI EN 319 411-2) and QCP-w-psd2, which includes one of them (ETSI TS 119 495)."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the certificate says the peer is.

    `organisation` is its organizationIdentifier, "" where the profile asks for none. `psd2_roles` are "PSP_AS",
    "PSP_PI", "PSP_AI", "PSP_IC". `authority` is the NCAId. `serial` is lower-case hex, `issuer` an RFC 4514 name,
    `thumbprint` the base64url SHA-256 of the DER (the `x5t#S256` of RFC 8705), `not_after` its last valid instant.
    """

    organisation: str
    psd2_roles: frozenset[str]
    authority: str
    authority_name: str
    common_name: str
    serial: str
    issuer: str
    thumbprint: str
    not_after: Instant


@dataclass(frozen=True, slots=True)
class _Case:
    leaf: Parsed
    profile: CertificateProfile
    statements: Statements


def judge_leaf(leaf: Parsed, profile: CertificateProfile) -> Identity | Deny:
    """Judge the leaf of a valid path by its profile: "qwac-psd2", "obwac" or "mtls"."""
    refusal = judge_usage(leaf, profile)
    if refusal is not None:
        return refusal
    if profile.profile == "mtls":
        return _identity(leaf)
    return _judge_psd2(leaf, profile)


def judge_usage(leaf: Parsed, profile: CertificateProfile) -> Deny | None:
    """Whether the leaf may authenticate a TLS client (RFC 5280 sections 4.2.1.3 and 4.2.1.12)."""
    if leaf.authority:
        return Deny(Reason.CERTIFICATE_USAGE, "The client certificate is that of a certification authority.")
    if leaf.key_usage is not None and not leaf.key_usage.digital_signature:
        return Deny(Reason.CERTIFICATE_USAGE, "The key usage of the client certificate lacks digitalSignature.")
    if leaf.usages is None and profile.require_eku:
        return Deny(Reason.CERTIFICATE_USAGE, "The client certificate has no extended key usage.")
    if leaf.usages is not None and CLIENT_AUTH not in leaf.usages:
        return Deny(Reason.CERTIFICATE_USAGE, "The extended key usage of the client certificate lacks clientAuth.")
    if CT_POISON in leaf.unknown:
        return Deny(Reason.CERTIFICATE_USAGE, "The client certificate is a precertificate.")
    if leaf.unknown:
        return Deny(Reason.CERTIFICATE_USAGE, "The client certificate has a critical extension that is not understood.")
    return None


def _judge_psd2(leaf: Parsed, profile: CertificateProfile) -> Identity | Deny:
    if leaf.statements is None:
        return Deny(Reason.CERTIFICATE_STATEMENTS_MISSING)
    if leaf.statements_critical:
        return Deny(Reason.CERTIFICATE_STATEMENTS_MALFORMED, "The qcStatements must not be critical.")
    statements = read_statements(leaf.statements)
    if isinstance(statements, Deny):
        return statements
    case = _Case(leaf, profile, statements)
    for step in STEPS[profile.profile]:
        refusal = step(case)
        if refusal is not None:
            return refusal
    return _payment_provider(case)


def _check_compliance(case: _Case) -> Deny | None:
    return None if case.statements.compliance else Deny(Reason.CERTIFICATE_NOT_QUALIFIED)


def _check_type(case: _Case) -> Deny | None:
    """Exactly one type, and that one web: an eseal certificate is a QSEAL, which never authenticates TLS."""
    types = case.statements.types
    return None if len(types) == 1 and TYPES.get(types[0]) == "web" else Deny(Reason.CERTIFICATE_TYPE)


def _check_policies(case: _Case) -> Deny | None:
    return judge_policies(case.leaf, case.profile)


def judge_policies(leaf: Parsed, profile: CertificateProfile) -> Deny | None:
    """Whether the leaf names a policy of qualified website certificates, or one that the document accepts."""
    accepted = WEB_POLICIES.union(profile.policies)
    return Deny(Reason.CERTIFICATE_POLICY) if accepted.isdisjoint(leaf.policies.named or ()) else None


def _check_named_policies(case: _Case) -> Deny | None:
    """Ask for the policies that the document names: the Open Banking profile prescribes none."""
    return _check_policies(case) if case.profile.policies else None


Step = Callable[[_Case], Deny | None]
STEPS: dict[str, tuple[Step, ...]] = {
    "qwac-psd2": (_check_compliance, _check_type, _check_policies),
    "obwac": (_check_type, _check_named_policies),
}


def _payment_provider(case: _Case) -> Identity | Deny:
    psd2 = case.statements.psd2
    if psd2 is None:
        return Deny(Reason.CERTIFICATE_STATEMENTS_MISSING)
    roles = read_roles(psd2)
    if isinstance(roles, Deny):
        return roles
    refusal = judge_authority(psd2)
    if refusal is not None:
        return refusal
    organisation = judge_organisation(case.leaf.organisations, psd2.authority_id, case.profile.schemes)
    if isinstance(organisation, Deny):
        return organisation
    if case.profile.account_servicing_implies_all and "PSP_AS" in roles:
        roles = PSD2_ROLES
    return _identity(case.leaf, organisation, roles, psd2.authority_id, psd2.authority_name)


def _identity(
    leaf: Parsed,
    organisation: str = "",
    roles: frozenset[str] = frozenset(),
    authority: str = "",
    authority_name: str = "",
) -> Identity:
    return Identity(
        organisation=organisation or _plain_organisation(leaf),
        psd2_roles=roles,
        authority=authority,
        authority_name=authority_name,
        common_name=leaf.common_name,
        serial=format(leaf.serial, "x"),
        issuer=leaf.certificate.issuer.rfc4514_string(),
        thumbprint=base64.urlsafe_b64encode(leaf.thumbprint).rstrip(b"=").decode(),
        not_after=leaf.not_after,
    )


def _plain_organisation(leaf: Parsed) -> str:
    """Return the organizationIdentifier of a certificate whose profile demands none, where it has just one."""
    return leaf.organisations[0] if len(leaf.organisations) == 1 else ""


def block_names(leaf: Parsed) -> set[str]:
    """List the names under which a block list may hold a certificate.

    Its organizationIdentifier, "issuer RFC 4514 name#serial in hex", or "spki:" and the SHA-256 of its public key in
    hex: a key is one whatever certificate carries it.
    """
    return {
        *leaf.organisations,
        f"{leaf.certificate.issuer.rfc4514_string()}#{leaf.serial:x}",
        f"spki:{hashlib.sha256(leaf.key_bytes).hexdigest()}",
    }
