"""The only waiting of the rate limit service: the charges of one request, all or none."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from model.instant import Instant
from model.quota import Charge, Limiter, Outcome
from ratelimit.plan import (
    Line,
    find_refusing,
    list_charges,
    list_debts,
    list_looks,
    list_refunds,
    look_first,
    would_exceed,
)

Outcomes = Sequence[Outcome | None]


class Counter(Limiter, Protocol):
    """A limiter that can also be looked into, and takes hits back."""

    async def peek(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        """Tell what a spend of cost 0 would say; nothing is counted."""
        ...

    async def refund(self, charges: Sequence[Charge], now: Instant) -> None:
        """Give back hits that were spent; no limit is ever more than whole."""
        ...


async def charge_lines(limiter: Counter, lines: Sequence[Line], now: Instant, *, drain: bool = False) -> Outcomes:
    """Charge a request: an outcome for each line, None for one without a charge.

    What is given back is given first, what refuses without being spent is looked at next, and only then is anything
    spent. `drain`: see `plan.list_debts`. Raises LimiterUnavailable.
    """
    refunds = list_refunds(lines)
    if refunds:
        await limiter.refund(refunds, now)
    looked: Outcomes = [None] * len(lines)
    if look_first(lines):
        looked = _spread(await limiter.peek(list_looks(lines), now), [line.charge for line in lines])
        exceeded = [would_exceed(line, outcome) for line, outcome in zip(lines, looked, strict=True)]
        if any(find_refusing(lines, exceeded)):
            return [_refuse(outcome) if no else outcome for outcome, no in zip(looked, exceeded, strict=True)]
    charges = list_charges(lines)
    if not charges:
        return looked
    spent = _spread(await _spend(limiter, charges, now), [line.spends for line in lines])
    outcomes = [outcome or look for outcome, look in zip(spent, looked, strict=True)]
    debts = list_debts(lines, outcomes, drain=drain)
    if debts:
        await _spend(limiter, debts, now)
    return outcomes


async def _spend(limiter: Counter, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
    outcomes = limiter.admit(charges, now)
    return await limiter.spend(charges, now) if outcomes is None else outcomes


def _spread(outcomes: Sequence[Outcome], asked: Iterable[object]) -> Outcomes:
    """Give each line that asked its outcome, in their order, and the others none."""
    left = iter(outcomes)
    return [next(left) if one else None for one in asked]


def _refuse(outcome: Outcome | None) -> Outcome | None:
    """Make a look that found too little the refusal that a spend would have met.

    Where the look knows no wait, the time until the limit is whole again is one that is always enough.
    """
    if outcome is None or not outcome.allowed:
        return outcome
    return replace(outcome, allowed=False, retry_after=outcome.retry_after or outcome.reset)
