"""Whom the request stands for: the certificate of the connection, then the credential, each by its own verifier."""

from authz.application import verify_key
from authz.assertion import identify_assertion
from authz.certificate import judge_certificate, read_peer
from authz.denylist import Subject
from authz.evidence import Answer, Evidence, Step, WantKey
from authz.opaque import identify_opaque
from authz.resident import Verified
from authz.standing import admit_consumer, find_standing, note_verified
from authz.token import Claims, Trusted, UnknownKey, judge_times, verify_token
from model.reason import Reason
from model.snapshot import Access, Kind
from model.verdict import Deny


def check_certificate(evidence: Evidence) -> Answer:
    """Judge the client certificate by the plane's profile; one that is presented must hold, asked for or not."""
    plane = evidence.plan.plane
    text = evidence.request.certificate
    if plane.certificate is None:
        return None
    if not text:
        return Deny(Reason.CERTIFICATE_MISSING) if plane.certificate.required else None
    resident = evidence.resident
    peer = resident.peers.get(text)
    if peer is None:
        read = read_peer(text)
        if isinstance(read, Deny):
            return read
        peer = read
        resident.peers.put(text, peer)
    identity = judge_certificate(peer, resident.trusts[plane.id], evidence.now, resident.live.status)
    if isinstance(identity, Deny):
        return identity
    evidence.identity = identity
    evidence.caller.organisation = identity.organisation
    return None


def check_credential(evidence: Evidence) -> Answer:
    """Verify the credential by its kind; a kind that nothing here verifies is refused."""
    credential = evidence.credential
    step = None if credential is None else IDENTIFIERS.get(credential.kind)
    return Deny(Reason.CREDENTIAL_KIND_REFUSED) if step is None else step(evidence)


def identify_nobody(evidence: Evidence) -> Answer:
    """Let the caller be anonymous, in the tier that the plane gives to such, or in that of the application."""
    tier = evidence.plan.plane.anonymous_tier
    evidence.tier = evidence.resident.snapshot.tiers.get(tier)
    evidence.caller.tier = tier
    return None


def identify_peer(evidence: Evidence) -> Answer:
    """Take the client certificate as the credential: its organisation, or its common name under plain mTLS."""
    identity = evidence.identity
    if identity is None:
        return Deny(Reason.CERTIFICATE_MISSING)
    resident = evidence.resident
    if identity.organisation:
        consumer = resident.organisations.get(identity.organisation)
    else:
        consumer = resident.snapshot.consumers.get(identity.common_name)
    if consumer is None:
        return Deny(Reason.CLIENT_UNKNOWN)
    return admit_consumer(evidence, consumer)


def identify_key(evidence: Evidence) -> Answer:
    """Verify an API key and stand for the client that it was given to."""
    credential = evidence.credential
    text, scheme = ("", "") if credential is None else (credential.text, credential.scheme)
    found = verify_key(evidence, text, scheme)
    if isinstance(found, Deny):
        return found
    record = found.record
    evidence.scopes = record.scopes
    evidence.roles = record.roles
    evidence.serial = record.id
    evidence.caller.tenant = record.tenant
    evidence.marks = ((Subject.API_KEY, "", record.id),)
    return admit_consumer(evidence, found.consumer)


def identify_token(evidence: Evidence) -> Answer:
    """Verify a JWT, or recall that it was verified, and stand for its client."""
    text = "" if evidence.credential is None else evidence.credential.text
    resident = evidence.resident
    verified = resident.tokens.get(text)
    if verified is not None:
        trusted = resident.live.keys.trust.get(verified.claims.issuer)
        if trusted is not None and _stands(verified.claims, trusted, evidence.now):
            return _recall(evidence, verified, trusted)
        resident.tokens.drop(text)
    claims = verify_token(text, resident.live.keys.trust, evidence.now)
    if isinstance(claims, UnknownKey):
        return WantKey(_verify_again, resident.live.keys, claims.issuer_id, claims.kid)
    if _is_assertion(evidence, claims):
        evidence.caller.kind = Kind.ASSERTION.value
        return identify_assertion(evidence)
    return claims if isinstance(claims, Deny) else _accept(evidence, text, claims)


def _verify_again(evidence: Evidence, changed: bool) -> Answer:
    """Verify once more where the issuer's keys have changed; otherwise no key of the issuer made this token."""
    text = "" if evidence.credential is None else evidence.credential.text
    if not changed:
        return Deny(Reason.TOKEN_KEY_UNKNOWN)
    claims = verify_token(text, evidence.resident.live.keys.trust, evidence.now)
    if isinstance(claims, UnknownKey):
        return Deny(claims.reason)
    return claims if isinstance(claims, Deny) else _accept(evidence, text, claims)


def _stands(claims: Claims, trusted: Trusted, now: int) -> bool:
    """Tell whether what was verified may be recalled: not expired, and its key still in the issuer's set."""
    return now < claims.expires and trusted.keys is not None and claims.thumbprint in trusted.keys.thumbprints


def _recall(evidence: Evidence, verified: Verified, trusted: Trusted) -> Answer:
    """Judge a remembered token against the clock.

    Where the issuer has been out of reach for longer than its keys may be used, reads pass on what was verified
    before, and writes do not (DESIGN section 7).
    """
    if evidence.now >= trusted.until and evidence.plan.route.access is not Access.READ:
        return Deny(Reason.IDENTITY_UNAVAILABLE)
    if not _is_welcome(evidence, verified.claims):
        return Deny(Reason.TOKEN_ISSUER)
    refusal = judge_times(verified.claims, trusted.issuer, evidence.now)
    return refusal if refusal is not None else note_verified(evidence, verified)


def _accept(evidence: Evidence, text: str, claims: Claims) -> Answer:
    """Find out whom a token that holds stands for, and remember both."""
    if not _is_welcome(evidence, claims):
        return Deny(Reason.TOKEN_ISSUER)
    issuer = evidence.resident.snapshot.issuers.get(claims.issuer_id)
    verified = find_standing(evidence, claims, Kind.JWT, issuer.tier if issuer is not None else None)
    if isinstance(verified, Deny):
        return verified
    evidence.resident.tokens.put(text, verified)
    return note_verified(evidence, verified)


def _is_welcome(evidence: Evidence, claims: Claims) -> bool:
    """Tell whether tokens of this issuer are accepted on this plane."""
    issuers = evidence.plan.plane.issuers
    return not issuers or claims.issuer_id in issuers


def _is_assertion(evidence: Evidence, claims: Claims | Deny) -> bool:
    """Tell whether a JWT of no issuer may be that of a partner: both come alike, and only the keys tell them apart."""
    unknown = isinstance(claims, Deny) and claims.reason is Reason.TOKEN_ISSUER
    return unknown and Kind.ASSERTION in evidence.plan.kinds


IDENTIFIERS: dict[Kind, Step] = {
    Kind.NONE: identify_nobody,
    Kind.CERTIFICATE: identify_peer,
    Kind.API_KEY: identify_key,
    Kind.JWT: identify_token,
    Kind.OPAQUE: identify_opaque,
    Kind.ASSERTION: identify_assertion,
}
"""Which step verifies which kind. A kind without one is refused."""
