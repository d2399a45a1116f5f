"""The qcStatements extension (RFC 3739, ETSI EN 319 412-5, ETSI TS 119 495): strict DER in, strict DER out.

The DER rules (definite and minimal lengths, no trailing bytes, exact string types) are those of the library's parser;
what is written here is which statements may stand how often, and what they say.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from cryptography.hazmat import asn1
from cryptography.x509 import ObjectIdentifier

from authz.der import enclose
from model.reason import Reason
from model.verdict import Deny

COMPLIANCE = ObjectIdentifier("0.4.0.1862.1.1")
QC_TYPE = ObjectIdentifier("0.4.0.1862.1.6")
PSD2 = ObjectIdentifier("0.4.0.19495.2")

TYPES = {"0.4.0.1862.1.6.1": "esign", "0.4.0.1862.1.6.2": "eseal", "0.4.0.1862.1.6.3": "web"}
ROLES = {
    "0.4.0.19495.1.0": "Unspecified",
    "0.4.0.19495.1.1": "PSP_AS",
    "0.4.0.19495.1.2": "PSP_PI",
    "0.4.0.19495.1.3": "PSP_AI",
    "0.4.0.19495.1.4": "PSP_IC",
}

Text = Annotated[str, asn1.Size(1, 256)]


@asn1.sequence
class Role:
    """RoleOfPSP ::= SEQUENCE { roleOfPspOid OBJECT IDENTIFIER, roleOfPspName UTF8String (SIZE 1..256) }."""

    oid: ObjectIdentifier
    name: Text


@asn1.sequence
class Authorisation:
    """PSD2QcType ::= SEQUENCE { rolesOfPSP, nCAName, nCAId } (ETSI TS 119 495 section 5.1)."""

    roles: list[Role]
    authority_name: Text
    authority_id: Text


@asn1.sequence
class _Outer:
    """A SEQUENCE of one element: the library's parser wants a class at the root, QCStatements is a SEQUENCE OF."""

    statements: list[asn1.TLV]


@asn1.sequence
class _Bare:
    id: ObjectIdentifier


@asn1.sequence
class _Any:
    id: ObjectIdentifier
    info: asn1.TLV


@asn1.sequence
class _Types:
    id: ObjectIdentifier
    types: list[ObjectIdentifier]


@asn1.sequence
class _Psd2:
    id: ObjectIdentifier
    info: Authorisation


@dataclass(frozen=True, slots=True)
class Statements:
    """What the statements say: `compliance` (QcCompliance), `types` (OIDs of QcType), `psd2` where there is one."""

    compliance: bool
    types: tuple[str, ...]
    psd2: Authorisation | None


def read_statements(der: bytes) -> Statements | Deny:
    """Read the value of the extension; a Deny with CERTIFICATE_STATEMENTS_MALFORMED where it breaks a rule.

    Statements stand in any order; unknown ones are ignored; QcType and the PSD2 statement stand at most once each.
    """
    try:
        found = [_split(statement) for statement in asn1.decode_der(_Outer, enclose(der)).statements]
        types = [statement.parse(_Types).types for oid, statement in found if oid == QC_TYPE]
        psd2 = [statement.parse(_Psd2).info for oid, statement in found if oid == PSD2]
    except ValueError:
        return _malformed("The qcStatements of the client certificate are not the DER of ETSI EN 319 412-5.")
    if len(types) > 1 or len(psd2) > 1:
        return _malformed("A qcStatement that may stand once stands twice.")
    return Statements(
        compliance=any(oid == COMPLIANCE for oid, _ in found),
        types=tuple(oid.dotted_string for oid in types[0]) if types else (),
        psd2=psd2[0] if psd2 else None,
    )


def write_statements(
    roles: Iterable[str],
    authority_name: str,
    authority_id: str,
    qc_type: str = "web",
    *,
    compliance: bool = True,
) -> bytes:
    """Write the value of a qcStatements extension for a certificate of a payment service provider.

    `roles` are names of ROLES ("PSP_AI", ...), `qc_type` a name of TYPES ("web", "eseal", "esign"). The bytes are put
    into a certificate as `x509.UnrecognizedExtension(QC_STATEMENTS, value)`, not critical. Raises KeyError for an
    unknown role or type.
    """
    oid_of_role = {name: oid for oid, name in ROLES.items()}
    oid_of_type = {name: oid for oid, name in TYPES.items()}
    authorisation = Authorisation(
        roles=[Role(oid=ObjectIdentifier(oid_of_role[role]), name=role) for role in roles],
        authority_name=authority_name,
        authority_id=authority_id,
    )
    statements = [
        asn1.encode_der(_Bare(id=COMPLIANCE)) if compliance else b"",
        asn1.encode_der(_Types(id=QC_TYPE, types=[ObjectIdentifier(oid_of_type[qc_type])])),
        asn1.encode_der(_Psd2(id=PSD2, info=authorisation)),
    ]
    return enclose(b"".join(statements))


def _split(statement: asn1.TLV) -> tuple[ObjectIdentifier, asn1.TLV]:
    """Read the statementId; the parser can say an optional statementInfo only as two shapes. Raises ValueError."""
    try:
        return statement.parse(_Any).id, statement
    except ValueError:
        return statement.parse(_Bare).id, statement


def _malformed(detail: str) -> Deny:
    return Deny(Reason.CERTIFICATE_STATEMENTS_MALFORMED, detail)
