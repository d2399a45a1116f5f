"""Whom verified claims stand for: the consumer, its tier and tenant, and what a denylist can name about them."""

from authz.denylist import Subject
from authz.evidence import Answer, Evidence
from authz.resident import Mark, Verified
from authz.token import Claims
from model.reason import Reason
from model.snapshot import Consumer, Kind, Tier
from model.verdict import Caller, Deny


def find_standing(evidence: Evidence, claims: Claims, kind: Kind, strangers: str | None) -> Verified | Deny:
    """Find whom claims stand for. `strangers` is the tier that their issuer gives to clients that are not registered.

    An issuer without such a tier has no strangers: its clients have to be registered, whatever their tokens say.
    """
    consumer = evidence.resident.snapshot.consumers.get(claims.client_id)
    tier = _find_tier(evidence.resident.snapshot.tiers, claims, consumer, strangers)
    if tier is None:
        evidence.caller.client_id = claims.client_id
        return Deny(Reason.CLIENT_UNKNOWN)
    tenant = consumer.tenant if consumer is not None and consumer.tenant else claims.tenant
    caller = Caller(kind.value, claims.client_id, claims.subject, tier.id, tenant)
    return Verified(claims, caller, consumer, tier, _mark(claims))


def note_verified(evidence: Evidence, verified: Verified) -> Answer:
    """Note in the evidence what was verified, now or before."""
    claims, caller = verified.claims, verified.caller
    evidence.verified = verified
    evidence.claims = claims
    evidence.scopes = claims.scopes
    evidence.roles = claims.roles
    evidence.serial = claims.jti
    evidence.issued = claims.issued
    evidence.marks = verified.marks
    evidence.consumer = verified.consumer
    evidence.tier = verified.tier
    evidence.caller = Caller(
        caller.kind, caller.client_id, caller.subject, caller.tier, caller.tenant, evidence.caller.organisation
    )
    return None


def admit_consumer(evidence: Evidence, consumer: Consumer) -> Answer:
    """Note a consumer who is known without claims: by its key or by its certificate."""
    caller = evidence.caller
    evidence.consumer = consumer
    evidence.tier = evidence.resident.snapshot.tiers[consumer.tier]
    caller.client_id = consumer.client_id
    caller.tier = consumer.tier
    caller.tenant = consumer.tenant or caller.tenant
    return None


def _find_tier(tiers: dict[str, Tier], claims: Claims, consumer: Consumer | None, strangers: str | None) -> Tier | None:
    """Find the tier: that of the registered consumer; for others the one in the token, or the one for strangers."""
    if consumer is not None:
        return tiers[consumer.tier]
    return None if strangers is None else tiers.get(claims.tier) or tiers[strangers]


def _mark(claims: Claims) -> tuple[Mark, ...]:
    return (
        (Subject.TOKEN, claims.issuer, claims.jti),
        (Subject.SUBJECT, claims.issuer, claims.subject),
        (Subject.KEY, claims.issuer, claims.kid),
    )
