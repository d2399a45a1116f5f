"""Opaque tokens: the endpoint of the plane says what they are (RFC 7662), and is asked about each only now and then."""

from authz.evidence import Answer, Evidence, Introspect
from authz.introspection import issuer_of
from authz.standing import find_standing, note_verified
from authz.token import Claims, judge_times
from model.reason import Reason
from model.snapshot import Access, Kind
from model.verdict import Deny


def identify_opaque(evidence: Evidence) -> Answer:
    """Ask about the token. A route that reads takes an older answer while the endpoint is away (DESIGN section 7)."""
    endpoint_id = evidence.plan.plane.introspection
    if not endpoint_id or evidence.credential is None:
        return Deny(Reason.CREDENTIAL_KIND_REFUSED)
    lenient = evidence.plan.route.access is Access.READ
    return Introspect(_accept, endpoint_id, evidence.credential.text, lenient)


def _accept(evidence: Evidence, claims: Claims) -> Answer:
    """Judge the answer against the clock, since it may be an older one, and find out whom the token stands for."""
    settings = evidence.resident.snapshot.introspections[evidence.plan.plane.introspection]
    refusal = judge_times(claims, issuer_of(settings), evidence.now)
    if refusal is not None:
        return refusal
    verified = find_standing(evidence, claims, Kind.OPAQUE, settings.tier)
    return verified if isinstance(verified, Deny) else note_verified(evidence, verified)
