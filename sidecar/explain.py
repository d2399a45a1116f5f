"""Which limits would this caller meet, and what is left of each: questions without a count.

One is about a route of the document, the other about the rate limit service's own rules.
"""

from collections.abc import Mapping
from urllib.parse import unquote

from authz.evidence import Evidence, Spend
from authz.limits import spend_quotas
from authz.resident import Resident
from model.instant import SECOND, Instant
from model.quota import Charge, LimiterUnavailable, Outcome
from model.request import Request
from model.verdict import Caller
from ratelimit.explain import explain_question
from ratelimit.limiter import OpenLimiter
from ratelimit.question import Descriptor, Question, QuestionInvalid
from ratelimit.rules import Rules
from sidecar.question import FACTS, RateQuestion


async def explain_limits(
    resident: Resident, limiter: OpenLimiter, question: Mapping[str, str], now: Instant
) -> dict[str, object]:
    """Explain as plain data for JSON: {"route", "client", "tier", "why", "limits": [...]}, nothing counted.

    `question` needs "route" and may have the other FACTS. Raises ValueError, saying what is missing or not known.
    """
    evidence, why = _imagine_caller(resident, question, now)
    spend = spend_quotas(evidence)
    charges = spend.charges if isinstance(spend, Spend) else ()
    outcomes = await limiter.peek(charges, now)
    return {
        "route": evidence.plan.route.id,
        "client": evidence.caller.client_id or None,
        "tier": evidence.caller.tier or None,
        "why": why,
        "limits": [_describe_limit(charge, outcome) for charge, outcome in zip(charges, outcomes, strict=True)],
    }


async def explain_rates(
    rules: Rules, limiter: OpenLimiter, question: RateQuestion, now: Instant, *, all_soft: bool = False
) -> dict[str, object]:
    """Explain as `ratelimit.explain.explain_question` does, nothing counted. Raises ValueError."""
    domain, descriptors = question
    asked = Question(domain, tuple(map(read_descriptor, descriptors)))
    try:
        return await explain_question(rules, asked, limiter, now, all_soft=all_soft)
    except QuestionInvalid as invalid:
        raise ValueError(str(invalid)) from invalid
    except LimiterUnavailable as away:
        raise ValueError("limits cannot be counted now") from away


def read_descriptor(text: str) -> Descriptor:
    """Read "key=value,key2=value2", where %2C stands for a comma that is part of a value. Raises ValueError."""
    entries = []
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not key or not equals:
            raise ValueError(f"{part!r} is no entry of a descriptor; expected key=value")
        entries.append((unquote(key), unquote(value)))
    return Descriptor(tuple(entries))


def _imagine_caller(resident: Resident, question: Mapping[str, str], now: Instant) -> tuple[Evidence, str]:
    if unknown := sorted(set(question) - FACTS):
        raise ValueError(f"unknown fact {unknown[0]!r}; known are {', '.join(sorted(FACTS))}")
    snapshot, route, client = resident.snapshot, question.get("route", ""), question.get("client", "")
    plan = resident.plans.get(route)
    if plan is None:
        raise ValueError(f"no route {route!r}; there are {', '.join(sorted(resident.plans)) or 'none'}")
    consumer = snapshot.consumers.get(client)
    tier_id, why = _find_tier(question, consumer.tier if consumer else "", plan.plane.anonymous_tier)
    if tier_id and tier_id not in snapshot.tiers:
        raise ValueError(f"no tier {tier_id!r}; there are {', '.join(sorted(snapshot.tiers)) or 'none'}")
    caller = Caller(
        client_id=client,
        subject=question.get("subject", ""),
        tier=tier_id,
        tenant=question.get("tenant", consumer.tenant if consumer else ""),
        organisation=question.get("organisation", ""),
    )
    request = Request(route=route, address=question.get("address", "192.0.2.1"), received=now)
    tier = snapshot.tiers.get(tier_id)
    return Evidence(request, resident, now, plan, consumer=consumer, tier=tier, caller=caller), why


def _find_tier(question: Mapping[str, str], registered: str, anonymous: str) -> tuple[str, str]:
    if "tier" in question:
        return question["tier"], "the tier was given in the question"
    if registered:
        return registered, "the client is a registered consumer of this tier"
    if question.get("client"):
        return "", "the client is not registered; its issuer decides its tier"
    return anonymous, "no client: the anonymous tier of the plane" if anonymous else "no client, and no anonymous tier"


def _describe_limit(charge: Charge, outcome: Outcome) -> dict[str, object]:
    quota = charge.quota
    return {
        "name": quota.name,
        "count": quota.count,
        "period_seconds": quota.period / SECOND,
        "burst": quota.burst,
        "algorithm": quota.algorithm.value,
        "enforced": quota.enforced,
        "concurrent": quota.concurrent,
        "cost": charge.cost,
        "key": list(charge.key),
        "remaining": outcome.remaining,
        "reset_seconds": outcome.reset / SECOND,
    }
