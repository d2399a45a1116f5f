"""Certification paths (RFC 5280 section 6): from a leaf to a listed anchor, which need not be self-signed.

The library's own verifier is not used for this: it knows no Ed25519 issuers, refuses critical certificate policies,
and folds time, strength and trust into one failure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from authz.constraints import names_permitted
from authz.parsed import ANY_USAGE, CLIENT_AUTH, Name, Parsed
from authz.policies import policies_hold
from authz.signature import signature_holds
from model.instant import Instant
from model.reason import Reason
from model.verdict import Deny

MAX_LENGTH = 6
"""Certificates in a path, the leaf and the anchor included: a path length of at most 5."""

STRANGER = "The issuer of the client certificate is not among the issuing CAs that are trusted here."
"""Envoy hands the leaf on alone, so that an issuing CA between it and a listed root must be listed too."""

MAX_SIGNATURES = 32
"""Signatures checked for one leaf, so that crossed issuers cannot make it expensive."""


@dataclass(frozen=True, slots=True)
class Path:
    """A path that holds: the leaf first, the anchor last. It is valid from `since` to `until`, both included."""

    certificates: tuple[Parsed, ...]
    since: Instant
    until: Instant


@dataclass(slots=True)
class _Search:
    """What one search has met so far: the budget left, and the best refusal to report when no path holds."""

    now: Instant
    anchors: frozenset[bytes]
    issuers: dict[Name, list[Parsed]]
    signatures: int = MAX_SIGNATURES
    refusal: Deny = field(default_factory=lambda: Deny(Reason.CERTIFICATE_UNTRUSTED))


def build_path(leaf: Parsed, presented: Iterable[Parsed], anchors: Sequence[Parsed], now: Instant) -> Path | Deny:
    """Find a path from the leaf through presented certificates to an anchor, valid at `now`.

    Refusals: CERTIFICATE_UNTRUSTED, CERTIFICATE_WEAK, and CERTIFICATE_EXPIRED or CERTIFICATE_NOT_YET_VALID where a path
    exists whose only fault is the time.
    """
    issuers: dict[Name, list[Parsed]] = {}
    for certificate in (*anchors, *presented):
        issuers.setdefault(certificate.subject, []).append(certificate)
    search = _Search(now, frozenset(anchor.der for anchor in anchors), issuers)
    if leaf.issuer not in issuers and leaf.der not in search.anchors:
        return Deny(Reason.CERTIFICATE_UNTRUSTED, STRANGER)
    return _extend(search, (leaf,)) or search.refusal


def _extend(search: _Search, path: tuple[Parsed, ...]) -> Path | None:
    """Depth first: anchors are tried before what the client presented."""
    last = path[-1]
    if last.der in search.anchors:
        return _close(search, path)
    if len(path) == MAX_LENGTH:
        return None
    for issuer in search.issuers.get(last.issuer, ()):
        if any(issuer.key_bytes == above.key_bytes and issuer.subject == above.subject for above in path):
            continue
        if not may_issue(issuer, path) or not _signed(search, last, issuer):
            continue
        found = _extend(search, (*path, issuer))
        if found is not None:
            return found
    return None


def may_issue(issuer: Parsed, path: Sequence[Parsed]) -> bool:
    """Whether `issuer` may stand above `path` (leaf first): a CA, with the key usage, room and names for it."""
    if not issuer.authority or issuer.unknown or issuer.statements_critical:
        return False
    if issuer.key_usage is not None and not issuer.key_usage.key_cert_sign:
        return False
    if issuer.usages is not None and issuer.usages.isdisjoint((CLIENT_AUTH, ANY_USAGE)):
        return False  # not in RFC 5280, but what every TLS library makes of a CA for servers only
    between = sum(1 for certificate in path[1:] if not certificate.self_issued)
    if issuer.path_length is not None and between > issuer.path_length:
        return False
    return issuer.constraints is None or names_permitted(issuer.constraints, path)


def signed_by(certificate: Parsed, issuer: Parsed) -> bool:
    """Whether the issuer's key made the certificate's signature, and the names fit."""
    if certificate.issuer != issuer.subject or certificate.weak_digest:
        return False
    signed = certificate.certificate
    return signature_holds(
        issuer.certificate.public_key(),
        signed.signature,
        signed.tbs_certificate_bytes,
        signed.signature_hash_algorithm,
        signed.signature_algorithm_parameters,
    )


def _signed(search: _Search, certificate: Parsed, issuer: Parsed) -> bool:
    if certificate.weak_digest:
        search.refusal = _weak(certificate.weak_digest)
        return False
    search.signatures -= 1
    return search.signatures >= 0 and signed_by(certificate, issuer)


def _weak(what: str) -> Deny:
    return Deny(Reason.CERTIFICATE_WEAK, f"The certificate path uses {what}.")


def _close(search: _Search, path: tuple[Parsed, ...]) -> Path | None:
    """Close a complete path: judge strength and time over all of it."""
    if not policies_hold([(each.policies, each.self_issued) for each in path[:-1]]):
        search.refusal = Deny(Reason.CERTIFICATE_UNTRUSTED, "An issuer demands a certificate policy that is missing.")
        return None
    weak = next((each.weak_key for each in path if each.weak_key), "")
    if weak:
        search.refusal = _weak(weak)
        return None
    since = max(each.not_before for each in path)
    until = min(each.not_after for each in path)
    if search.now > until:
        search.refusal = Deny(Reason.CERTIFICATE_EXPIRED, "An issuer of the client certificate has expired.")
        return None
    if search.now < since:
        search.refusal = Deny(Reason.CERTIFICATE_NOT_YET_VALID, "An issuer of the client certificate is not valid yet.")
        return None
    return Path(path, since, until)
