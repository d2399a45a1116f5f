"""Performs what a decision asks for: the only module of the room that waits.

What is resident is tried first, without waiting. A dependency that fails becomes a reason here and nowhere else.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from authz.decide import Reply, decide
from authz.evidence import Ask, Introspect, Spend, WantKey, open_evidence
from authz.resident import Endpoints, Resident
from model.instant import Instant
from model.quota import Charge, Limiter, LimiterUnavailable
from model.reason import Reason
from model.request import Request
from model.verdict import Deny, Verdict


@dataclass(slots=True)
class Pending:
    """A decision that has to wait: what it asks for, and the rest of it."""

    ask: Ask
    decision: Generator[Ask, Reply, Verdict]


def begin_verdict(request: Request, resident: Resident, limiter: Limiter) -> Verdict | Pending:
    """Judge a request from what is resident, as far as that goes."""
    decision = decide(open_evidence(request, resident))
    try:
        return _go_on(Pending(next(decision), decision), limiter, request.received)
    except StopIteration as end:
        verdict: Verdict = end.value
        return verdict


async def finish_verdict(pending: Pending, request: Request, resident: Resident, limiter: Limiter) -> Verdict:
    """Feed a judgement what it asks for, and wait for that."""
    now = request.received
    try:
        while True:
            pending.ask = pending.decision.send(await _perform(pending.ask, resident, limiter, now))
            _go_on(pending, limiter, now)
    except StopIteration as end:
        verdict: Verdict = end.value
        return verdict


def _go_on(pending: Pending, limiter: Limiter, now: Instant) -> Pending:
    """Reply for as long as the replies are at hand. Raises StopIteration with the verdict at the decision's end."""
    while isinstance(pending.ask, Spend):
        outcomes = limiter.admit(pending.ask.charges, now)
        if outcomes is None:
            break
        pending.ask = pending.decision.send(outcomes)
    return pending


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
