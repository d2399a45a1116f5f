"""Performs what a decision asks for: the only module of the room that waits.

What is resident is tried first, without waiting. A dependency that fails becomes a reason here and nowhere else.
"""

from collections.abc import Sequence

from authz.decide import Reply, decide
from authz.evidence import Ask, Introspect, Spend, WantKey, open_evidence
from authz.resident import Endpoints, Resident
from model.instant import Instant
from model.quota import Charge, Limiter, LimiterUnavailable
from model.reason import Reason
from model.request import Request
from model.verdict import Deny, Verdict


async def gather_verdict(request: Request, resident: Resident, limiter: Limiter) -> Verdict:
    """Judge a request and feed the judgement what it asks for."""
    decision = decide(open_evidence(request, resident))
    try:
        ask = next(decision)
        while True:
            outcomes = limiter.admit(ask.charges, request.received) if isinstance(ask, Spend) else None
            reply = await _perform(ask, resident, limiter, request.received) if outcomes is None else outcomes
            ask = decision.send(reply)
    except StopIteration as end:
        verdict: Verdict = end.value
        return verdict


async def _perform(ask: Ask, resident: Resident, limiter: Limiter, now: Instant) -> Reply:
    match ask:
        case Spend():
            return await _spend(ask.charges, limiter, now)
        case WantKey():
            return await ask.keys.want(ask.issuer_id, ask.kid)
        case Introspect():
            return await _introspect(ask, resident.live.endpoints, now)
    raise TypeError(f"nothing performs {type(ask).__name__}")


async def _introspect(ask: Introspect, endpoints: Endpoints, now: Instant) -> Reply:
    known = endpoints.recall(ask.endpoint_id, ask.token, now)
    return known if known is not None else await endpoints.ask(ask.endpoint_id, ask.token, lenient=ask.lenient)


async def _spend(charges: Sequence[Charge], limiter: Limiter, now: Instant) -> Reply:
    try:
        return await limiter.spend(charges, now)
    except LimiterUnavailable:
        return Deny(Reason.LIMITER_UNAVAILABLE)
