"""Certificate revocation lists (RFC 5280 section 5), read once, strictly: a list that is odd is not a list."""

from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

from authz.extension import find_value
from authz.parsed import DIGESTS, Name, Parsed, fold_name, instant_of
from model.instant import MINUTE, Duration, Instant

MAX_CRL = 16 * 1024 * 1024
"""Bytes of one list: some 400,000 entries."""
SKEW: Duration = MINUTE
"""How far thisUpdate may lie ahead: what is signed on demand says "now", by a clock that may be before ours."""

ALL_REASONS = frozenset(x509.ReasonFlags) - {x509.ReasonFlags.unspecified, x509.ReasonFlags.remove_from_crl}
UNDERSTOOD = frozenset(
    {
        x509.AuthorityKeyIdentifier.oid,
        x509.CRLNumber.oid,
        x509.DeltaCRLIndicator.oid,
        x509.IssuingDistributionPoint.oid,
    }
)
UNDERSTOOD_OF_ENTRY = frozenset({x509.CRLReason.oid, x509.InvalidityDate.oid})


class StatusInvalid(ValueError):
    """A CRL or an OCSP response that cannot be used; the text says why in a few words."""


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """What a list speaks of (its issuing distribution point). `names` empty: no distribution point is named."""

    names: frozenset[x509.GeneralName] = frozenset()
    leaves: bool = True
    authorities: bool = True
    reasons: frozenset[x509.ReasonFlags] = ALL_REASONS

    def covers(self, certificate: Parsed) -> bool:
        """Whether the list speaks of this certificate (RFC 5280 section 6.3.3 b)."""
        if not (self.authorities if certificate.authority else self.leaves):
            return False
        return not self.names or not self.names.isdisjoint(_point_names(certificate))


@dataclass(frozen=True, slots=True, eq=False)
class Crl:
    """A list whose signature holds.

    `entries` maps serial numbers to True (revoked or on hold) or False (removed, in a delta). `base` is the number of
    the list that a delta adds to, None for a complete list. `next_update` None: its issuer does not say when the next
    one comes. Times in nanoseconds.
    """

    issuer: Name
    signer: bytes
    number: int
    base: int | None
    this_update: Instant
    next_update: Instant | None
    scope: Scope
    entries: dict[int, bool]

    def fresh(self, now: Instant) -> bool:
        """Whether the list is in force: thisUpdate <= now <= nextUpdate (RFC 5280 section 5.1.2.5); see SKEW."""
        return self.this_update <= now + SKEW and self.next_update is not None and now <= self.next_update


def read_crl(data: bytes, issuers: Iterable[Parsed]) -> Crl:
    """Read a PEM or DER list signed by one of `issuers`, whose own paths hold.

    Raises StatusInvalid: unreadable, too large, signed by nobody known or weakly, indirect, or with a critical
    extension that is not understood.
    """
    if not data.strip():
        raise StatusInvalid("the list is empty")
    if len(data) > MAX_CRL:
        raise StatusInvalid("the list is too large")
    try:
        return _read(_load(data), issuers)
    except StatusInvalid:
        raise
    except (ValueError, TypeError, OverflowError, UnsupportedAlgorithm) as error:
        raise StatusInvalid("the list cannot be parsed") from error
    except (x509.DuplicateExtension, x509.UnsupportedGeneralNameType, x509.InvalidVersion) as error:
        raise StatusInvalid("the list has a repeated extension or an unknown kind of name") from error


def _load(data: bytes) -> x509.CertificateRevocationList:
    """Load PEM (RFC 7468 section 6) or DER."""
    return x509.load_pem_x509_crl(data) if data.lstrip().startswith(b"-----BEGIN") else x509.load_der_x509_crl(data)


def _read(crl: x509.CertificateRevocationList, issuers: Iterable[Parsed]) -> Crl:
    extensions = crl.extensions
    if any(each.critical and each.oid not in UNDERSTOOD for each in extensions):
        raise StatusInvalid("the list has a critical extension that is not understood")
    number = find_value(extensions, x509.CRLNumber)
    delta = find_value(extensions, x509.DeltaCRLIndicator)
    return Crl(
        issuer=fold_name(crl.issuer),
        signer=_signer(crl, issuers).key_bytes,
        number=0 if number is None else number.crl_number,
        base=None if delta is None else delta.crl_number,
        this_update=instant_of(crl.last_update_utc),
        next_update=None if crl.next_update_utc is None else instant_of(crl.next_update_utc),
        scope=_scope(find_value(extensions, x509.IssuingDistributionPoint), crl.issuer),
        entries={entry.serial_number: _revoked(entry) for entry in crl},
    )


def _signer(crl: x509.CertificateRevocationList, issuers: Iterable[Parsed]) -> Parsed:
    digest = crl.signature_hash_algorithm
    if digest is not None and digest.name not in DIGESTS:
        raise StatusInvalid(f"the list is signed over {digest.name}")
    name = fold_name(crl.issuer)
    for issuer in issuers:
        if issuer.subject == name and may_sign_lists(issuer) and _signature_holds(crl, issuer):
            return issuer
    raise StatusInvalid("no listed issuer signed the list")


def may_sign_lists(issuer: Parsed) -> bool:
    """Whether the key usage of a certificate lets it sign CRLs (RFC 5280 section 4.2.1.3) with a strong key."""
    return not issuer.weak_key and (issuer.key_usage is None or issuer.key_usage.crl_sign)


def _signature_holds(crl: x509.CertificateRevocationList, issuer: Parsed) -> bool:
    key = issuer.certificate.public_key()
    if isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
        return crl.is_signature_valid(key)
    return False


def _revoked(entry: x509.RevokedCertificate) -> bool:
    """Judge an entry: everything revokes, a hold too, but for a removal (in a delta)."""
    extensions = entry.extensions
    for each in extensions:
        if each.oid == x509.CertificateIssuer.oid:
            raise StatusInvalid("the list speaks for other issuers")
        if each.critical and each.oid not in UNDERSTOOD_OF_ENTRY:
            raise StatusInvalid("an entry of the list has a critical extension that is not understood")
    reason = find_value(extensions, x509.CRLReason)
    return reason is None or reason.reason is not x509.ReasonFlags.remove_from_crl


def _scope(point: x509.IssuingDistributionPoint | None, issuer: x509.Name) -> Scope:
    if point is None:
        return Scope()
    if point.indirect_crl:
        raise StatusInvalid("the list speaks for other issuers")
    return Scope(
        names=_full_names(point.full_name, point.relative_name, issuer),
        leaves=not (point.only_contains_ca_certs or point.only_contains_attribute_certs),
        authorities=not (point.only_contains_user_certs or point.only_contains_attribute_certs),
        reasons=point.only_some_reasons or ALL_REASONS,
    )


def _point_names(certificate: Parsed) -> frozenset[x509.GeneralName]:
    names: frozenset[x509.GeneralName] = frozenset()
    for point in certificate.points:
        names |= _full_names(point.full_name, point.relative_name, certificate.certificate.issuer)
        names |= frozenset(point.crl_issuer or ()) if point.full_name is None else frozenset()
    return names


def _full_names(
    full: Iterable[x509.GeneralName] | None, relative: x509.RelativeDistinguishedName | None, issuer: x509.Name
) -> frozenset[x509.GeneralName]:
    """Write a distribution point's name out; a relative one stands below its issuer's (RFC 5280 section 4.2.1.13)."""
    if relative is not None:
        return frozenset({x509.DirectoryName(x509.Name([*issuer.rdns, relative]))})
    return frozenset(full or ())
