"""Which quotas a request meets, whose they are, and what a refusal says.

All quotas of a request are spent in one step, all or nothing (bug report R-03). The flood limit stands apart: it is met
before anybody is known.
"""

from collections.abc import Sequence

from authz.dimension import name_bucket, name_shard
from authz.evidence import Answer, Evidence, Spend
from authz.plan import Metered
from model.fields import find_tightest, limit_fields
from model.instant import SECOND, Instant, whole_seconds
from model.problem import Extension
from model.quota import Charge, Outcome, Quota
from model.reason import Reason
from model.snapshot import Consumer, Dimension
from model.verdict import Deny

_OF_CONNECTION = frozenset((Dimension.ADDRESS, Dimension.ORGANISATION))


def limit_address(evidence: Evidence) -> Answer:
    """Spend from the flood limit of the source address, before anything is verified."""
    flood = evidence.plan.flood
    return None if flood is None else Spend(_judge_flood, (_charge(evidence, flood),))


def spend_quotas(evidence: Evidence) -> Answer:
    """Spend from every quota of the caller's tier and of the route in one step."""
    known = evidence.verified.charges if evidence.verified is not None else {}
    charges = known.get(evidence.plan.route.id)
    if charges is None:
        metered = _metered(evidence)
        charges = [_charge(evidence, one) for one in metered]
        if _are_steady(evidence, metered):
            known[evidence.plan.route.id] = charges
    evidence.charges = charges
    return Spend(_judge_quotas, charges) if charges else None


def _are_steady(evidence: Evidence, metered: Sequence[Metered]) -> bool:
    """Whether the charges follow from token and route, whatever connection, day and place the next request has."""
    steady = evidence.caller.client_id != "" and (evidence.consumer is None or not evidence.consumer.overrides)
    return steady and all(
        _OF_CONNECTION.isdisjoint(one.limit.per) and not one.limit.quota.concurrent for one in metered
    )


def _metered(evidence: Evidence) -> tuple[Metered, ...]:
    metered, tier = evidence.plan.metered, evidence.tier
    return metered[tier.id if tier is not None else ""]


def _judge_flood(evidence: Evidence, outcomes: Sequence[Outcome]) -> Answer:
    flood = evidence.plan.flood
    if flood is None or all(outcome.allowed for outcome in outcomes) or not flood.limit.quota.enforced:
        return None
    return Deny(
        Reason.ADDRESS_FLOOD,
        retry_after=whole_seconds(max(outcome.retry_after for outcome in outcomes)),
        extensions={"violated-policies": [flood.limit.quota.name]},
    )


def _judge_quotas(evidence: Evidence, outcomes: Sequence[Outcome]) -> Answer:
    """Note how it went, and refuse where an enforced quota did; a trial counts and never refuses."""
    met = [(charge.quota, outcome) for charge, outcome in zip(evidence.charges, outcomes, strict=True)]
    for quota, outcome in met:
        if not outcome.allowed and quota.enforced:
            return _refuse(evidence, met)
    evidence.met = met
    return None


def _refuse(evidence: Evidence, met: Sequence[tuple[Quota, Outcome]]) -> Deny:
    """Describe the quota that keeps the caller waiting longest, in the fields and in the document alike (R-08)."""
    limits = [one for one in met if one[0].enforced and not one[1].allowed]
    quota, outcome = find_tightest(limits)
    metered = next(one for one in _metered(evidence) if one.limit.quota.name == quota.name)
    wait = whole_seconds(outcome.retry_after)
    extensions: dict[str, Extension] = {
        "violated-policies": [quota.name for quota, _ in limits],
        "limit": quota.name,
        "scope": [dimension.value for dimension in metered.limit.per],
        "quota": quota.count,
        "window": -(-quota.period // SECOND),
        "remaining": 0,
        "reset": -(-outcome.reset // SECOND),
        "retry_after": wait,
    }
    return Deny(
        Reason.STREAMS_EXCEEDED if quota.concurrent else Reason.QUOTA_EXCEEDED,
        retry_after=wait,
        answer_headers=limit_fields(limits, evidence.plan.route.answer_fields),
        extensions=extensions,
    )


def _charge(evidence: Evidence, metered: Metered) -> Charge:
    limit = metered.limit
    quota = _in_force(limit.quota, evidence.consumer, evidence.now)
    key = (*metered.owner, quota.name, *name_bucket(evidence, limit.per))
    return Charge(
        quota, key, limit.cost, name_shard(evidence, limit.per), _holder(evidence) if quota.concurrent else ""
    )


def _holder(evidence: Evidence) -> str:
    """Name the request as one that takes a place.

    Its id alone would not do: a client may choose it (`request_id: preserve`), and could share one place of many.
    """
    return f"{evidence.now} {evidence.request.id}"


def _in_force(quota: Quota, consumer: Consumer | None, now: Instant) -> Quota:
    """Pick the quota itself, or the last override of the consumer under its name that holds at this instant."""
    if consumer is None or not consumer.overrides:
        return quota
    for override in reversed(consumer.overrides):
        if (
            override.quota.name == quota.name
            and (override.since is None or override.since <= now)
            and (override.until is None or now < override.until)
        ):
            return override.quota
    return quota
