"""Refusals that spare a system: the gateway under saturation, an upstream that rests. 503, never 401, 403 or 429."""

from authz.credential import query_credentials
from authz.evidence import Answer, Evidence
from authz.plan import CREDENTIAL_HEADERS
from model.reason import Reason
from model.request import Request
from model.verdict import Deny


def shed_strangers(evidence: Evidence) -> Answer:
    """Shed by rank what can be told before anything is verified: no credential at all, or a token already verified.

    A credential that is not known yet is let through to be verified, and shed by its tier afterwards: otherwise
    anybody could have a partner shed, or pass for one.
    """
    saturation = evidence.resident.live.saturation
    if saturation <= 0.0:
        return None
    return None if _has_credential(evidence.request) else _shed(evidence, "", saturation)


def shed_tier(evidence: Evidence) -> Answer:
    """Shed by the rank of the caller, once known: anonymous first, internal second, partners last."""
    saturation = evidence.resident.live.saturation
    if saturation <= 0.0:
        return None
    return _shed(evidence, evidence.caller.tier, saturation)


def spare_upstream(evidence: Evidence) -> Answer:
    """Refuse at once what would only wait for an upstream whose breaker is open."""
    if evidence.plan.route.upstream in evidence.resident.live.resting:
        return Deny(Reason.UPSTREAM_BREAKER_OPEN)
    return None


def _has_credential(request: Request) -> bool:
    headers = request.headers
    return bool(
        request.certificate
        or any(name in headers for name in CREDENTIAL_HEADERS)
        or ("?" in request.path and query_credentials(request.path))
    )


def _shed(evidence: Evidence, tier: str, saturation: float) -> Answer:
    points = evidence.resident.shed_at
    return Deny(Reason.OVERLOADED) if saturation >= points.get(tier, points[""]) else None
