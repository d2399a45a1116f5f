"""A certificate as the facts that judging needs, read once; the only place that meets the parser's exceptions."""

import hashlib
import warnings
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import AuthorityInformationAccessOID

from authz.extension import find_value
from authz.policies import MAPPINGS, Policies, read_policies
from model.instant import SECOND, Instant

QC_STATEMENTS = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.3")
SHORT_TERM = x509.ObjectIdentifier("0.4.0.194121.2.1")
"""ETSI EN 319 412-1 valassured-ST-certs: so short-lived that nobody publishes a revocation status."""
ORGANIZATION_IDENTIFIER = x509.ObjectIdentifier("2.5.4.97")

CLIENT_AUTH = "1.3.6.1.5.5.7.3.2"
ANY_USAGE = "2.5.29.37.0"

CURVES = frozenset({"secp256r1", "secp384r1", "secp521r1"})
DIGESTS = frozenset({"sha256", "sha384", "sha512", "sha3-256", "sha3-384", "sha3-512"})
MIN_RSA_BITS = 2048
MAX_SERIAL_BITS = 159
"""RFC 5280 section 4.1.2.2: a positive integer of at most 20 octets in DER."""

UNDERSTOOD = frozenset(
    {
        x509.BasicConstraints.oid,
        x509.KeyUsage.oid,
        x509.ExtendedKeyUsage.oid,
        x509.SubjectAlternativeName.oid,
        x509.CertificatePolicies.oid,
        x509.PolicyConstraints.oid,
        x509.InhibitAnyPolicy.oid,
        MAPPINGS,
        x509.NameConstraints.oid,
        x509.AuthorityKeyIdentifier.oid,
        x509.SubjectKeyIdentifier.oid,
    }
)


Name = tuple[frozenset[tuple[str, str]], ...]
"""A distinguished name as it compares: relative names in order, each a set of (OID, folded value)."""


class Unparsable(ValueError):
    """The bytes are not an X.509 v3 certificate that can be read; the text says why in a few words."""


@dataclass(frozen=True, slots=True, eq=False)
class Parsed:
    """One certificate.

    `subject` and `issuer` are names as they compare: folded, see `fold_name`. `not_before` is the first and `not_after`
    the last instant of its validity (nanoseconds; the whole last second belongs to it, RFC 5280 section 4.1.2.5).
    `usages` are the extended key usages, None where the extension is absent. `statements` is the value of the
    qcStatements extension. `unknown` are critical extensions that are not understood. `points` are where the
    issuer says that its CRLs stand, `responders` the URLs of its OCSP responders: both are the client's word until
    the path holds. `weak_key` and `weak_digest` say what is wrong, "" where nothing is.
    """

    der: bytes
    certificate: x509.Certificate
    subject: Name
    issuer: Name
    serial: int
    not_before: Instant
    not_after: Instant
    key_bytes: bytes
    authority: bool
    path_length: int | None
    key_usage: x509.KeyUsage | None
    usages: frozenset[str] | None
    policies: Policies
    statements: bytes | None
    statements_critical: bool
    unknown: tuple[str, ...]
    constraints: x509.NameConstraints | None
    names: tuple[x509.GeneralName, ...]
    points: tuple[x509.DistributionPoint, ...]
    responders: tuple[str, ...]
    organisations: tuple[str, ...]
    common_name: str
    weak_key: str
    weak_digest: str
    short_term: bool

    @property
    def self_issued(self) -> bool:
        """Whether subject and issuer are the same name (RFC 5280 section 6.1)."""
        return self.subject == self.issuer

    @property
    def thumbprint(self) -> bytes:
        """SHA-256 of the DER."""
        return hashlib.sha256(self.der).digest()


def fold_name(name: x509.Name) -> Name:
    """Fold a name for comparison: string type, case and runs of spaces do not count (RFC 5280 section 7.1)."""
    return tuple(fold_relative(each) for each in name.rdns)


def fold_relative(name: x509.RelativeDistinguishedName) -> frozenset[tuple[str, str]]:
    """Fold one relative distinguished name; its attributes have no order."""
    return frozenset((attribute.oid.dotted_string, _folded(attribute.value)) for attribute in name)


def _folded(value: str | bytes) -> str:
    return value.hex() if isinstance(value, bytes) else " ".join(value.casefold().split())


def parse_certificate(der: bytes) -> Parsed:
    """Read one DER certificate. Raises Unparsable."""
    try:
        with warnings.catch_warnings():
            # The parser warns of what is refused or irrelevant here: serials below 1, odd country codes.
            warnings.simplefilter("ignore")
            return _read(der, x509.load_der_x509_certificate(der))
    except Unparsable:
        raise
    except (ValueError, TypeError, OverflowError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise Unparsable("not a DER certificate that can be read") from error
    except (x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise Unparsable("a repeated extension or an unknown kind of name") from error


def _read(der: bytes, certificate: x509.Certificate) -> Parsed:
    serial = certificate.serial_number
    if serial <= 0 or serial.bit_length() > MAX_SERIAL_BITS:
        raise Unparsable("the serial number is not a positive integer of at most 20 octets")
    if certificate.version is not x509.Version.v3:
        raise Unparsable("not a version 3 certificate")
    if not der.endswith(b"\x00" + certificate.signature):
        # The parser leaves it open; a second encoding of one certificate would have another thumbprint.
        raise Unparsable("the signature has unused bits")
    extensions = certificate.extensions
    basic = find_value(extensions, x509.BasicConstraints)
    usages = find_value(extensions, x509.ExtendedKeyUsage)
    points = find_value(extensions, x509.CRLDistributionPoints)
    statements, critical = _statements(extensions)
    return Parsed(
        der=der,
        certificate=certificate,
        subject=fold_name(certificate.subject),
        issuer=fold_name(certificate.issuer),
        serial=serial,
        not_before=instant_of(certificate.not_valid_before_utc),
        not_after=instant_of(certificate.not_valid_after_utc) + SECOND - 1,
        key_bytes=_key_bytes(certificate),
        authority=basic is not None and basic.ca,
        path_length=None if basic is None else basic.path_length,
        key_usage=find_value(extensions, x509.KeyUsage),
        usages=None if usages is None else frozenset(usage.dotted_string for usage in usages),
        policies=read_policies(extensions),
        statements=statements,
        statements_critical=critical,
        unknown=tuple(
            each.oid.dotted_string
            for each in extensions
            if each.critical and each.oid not in UNDERSTOOD and each.oid != QC_STATEMENTS
        ),
        constraints=find_value(extensions, x509.NameConstraints),
        names=tuple(find_value(extensions, x509.SubjectAlternativeName) or ()),
        points=() if points is None else tuple(points),
        responders=_responders(extensions),
        organisations=_attributes(certificate.subject, ORGANIZATION_IDENTIFIER),
        common_name=next(iter(_attributes(certificate.subject, x509.NameOID.COMMON_NAME)), ""),
        weak_key=_weak_key(certificate),
        weak_digest=_weak_digest(certificate),
        short_term=any(each.oid == SHORT_TERM for each in extensions),
    )


def _statements(extensions: x509.Extensions) -> tuple[bytes | None, bool]:
    for each in extensions:
        if each.oid == QC_STATEMENTS:
            return each.value.public_bytes(), each.critical
    return None, False


def _responders(extensions: x509.Extensions) -> tuple[str, ...]:
    access = find_value(extensions, x509.AuthorityInformationAccess)
    return tuple(
        each.access_location.value
        for each in access or ()
        if each.access_method == AuthorityInformationAccessOID.OCSP
        and isinstance(each.access_location, x509.UniformResourceIdentifier)
    )


def _attributes(name: x509.Name, oid: x509.ObjectIdentifier) -> tuple[str, ...]:
    values = (attribute.value for attribute in name.get_attributes_for_oid(oid))
    return tuple(value if isinstance(value, str) else value.hex() for value in values)


def instant_of(moment: datetime) -> Instant:
    """Turn a moment of X.509, which knows whole seconds, into nanoseconds since the epoch."""
    return int(moment.timestamp()) * SECOND


def _key_bytes(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _weak_key(certificate: x509.Certificate) -> str:
    key = certificate.public_key()
    if isinstance(key, rsa.RSAPublicKey):
        return "" if key.key_size >= MIN_RSA_BITS else f"an RSA key of {key.key_size} bits"
    if isinstance(key, ec.EllipticCurvePublicKey):
        return "" if key.curve.name in CURVES else f"an elliptic curve key on {key.curve.name}"
    if isinstance(key, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
        return ""
    return "a key of an unknown kind"


def _weak_digest(certificate: x509.Certificate) -> str:
    try:
        digest = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        return "a signature algorithm that is not known"
    if digest is None or digest.name in DIGESTS:  # EdDSA names no digest of its own
        return ""
    return f"a signature over {digest.name}"
