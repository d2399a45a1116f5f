"""`envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`: read, plan, spend (the only await), judge, write."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from model.instant import Instant
from model.quota import Charge, LimiterUnavailable, Outcome
from model.rpc import RpcError
from ratelimit.judge import judge_lines
from ratelimit.plan import (
    Counter,
    Line,
    find_refusing,
    list_charges,
    list_debts,
    list_looks,
    list_refunds,
    look_first,
    plan_lines,
    would_exceed,
)
from ratelimit.question import Answer, Question, QuestionInvalid
from ratelimit.rules import Rules
from ratelimit.tally import RuleTally
from ratelimit.wire import read_question, write_answer

__all__ = ["Options", "RateLimitService", "RpcError"]

UNKNOWN = 2
UNAVAILABLE = 14

Outcomes = Sequence[Outcome | None]


@dataclass(frozen=True, slots=True)
class Options:
    """What holds for all rules.

    `families` are the rate limit fields of an answer (see `model.fields`); `problems` gives a refusal a problem
    document. `all_shadow` (SHADOW_MODE) counts and never refuses; `all_soft` (QUOTA_MODE) makes every limit a soft
    one. `describe` (RESPONSE_DYNAMIC_METADATA) describes the question in the metadata of every answer. `drain` lets a
    debit greater than what is left take the rest, of any limit and not only of soft ones.
    """

    families: tuple[str, ...] = ("draft",)
    problems: bool = True
    all_shadow: bool = False
    all_soft: bool = False
    describe: bool = False
    drain: bool = False


class RateLimitService:
    """Answers for one set of rules; `rules` is swapped as one attribute on reload.

    `clock` reads nanoseconds since the epoch. `record` is called once for each answer, with the question and the time
    at which it came in. `tally` may be that of a former service, whose counters then go on. `errors` counts the calls
    that had no answer.
    """

    def __init__(
        self,
        rules: Rules,
        limiter: Counter,
        clock: Callable[[], Instant],
        record: Callable[[Question, Answer, Instant], None] = lambda _question, _answer, _received: None,
        options: Options = Options(),
        tally: RuleTally | None = None,
    ) -> None:
        self.rules = rules
        self.options = options
        self.tally = RuleTally() if tally is None else tally
        self.errors = {"invalid": 0, "unavailable": 0}
        self._limiter = limiter
        self._clock = clock
        self._record = record

    async def should_rate_limit(self, data: bytes) -> bytes:
        """Answer the bytes of a `RateLimitRequest` with those of a `RateLimitResponse`.

        Raises RpcError: UNKNOWN for a question that cannot be answered, as envoyproxy/ratelimit, and UNAVAILABLE where
        the limits cannot be counted, so that Envoy's `failure_mode_deny` decides.
        """
        now = self._clock()
        options = self.options
        try:
            question = read_question(data)
            lines = plan_lines(self.rules, question, all_soft=options.all_soft)
        except QuestionInvalid as invalid:
            self.errors["invalid"] += 1
            raise RpcError(UNKNOWN, str(invalid)) from invalid
        try:
            outcomes = await self._charge(lines, now)
        except LimiterUnavailable as away:
            self.errors["unavailable"] += 1
            raise RpcError(UNAVAILABLE, "limits cannot be counted now") from away
        answer = judge_lines(question, lines, outcomes, all_shadow=options.all_shadow, describe=options.describe)
        self.tally.record(lines, answer)
        self._record(question, answer, now)
        return write_answer(answer, options.families, problems=options.problems)

    async def _charge(self, lines: Sequence[Line], now: Instant) -> Outcomes:
        """Spend all charges of a request or none; an outcome for each line, None for one without a charge."""
        looked: Outcomes = [None] * len(lines)
        refunds = list_refunds(lines)
        if refunds:
            await self._limiter.refund(refunds, now)
        if look_first(lines) or any(line.charge is not None and not line.spends for line in lines):
            looked = _spread(await self._limiter.peek(list_looks(lines), now), [line.charge for line in lines])
            exceeded = [would_exceed(line, outcome) for line, outcome in zip(lines, looked, strict=True)]
            if any(find_refusing(lines, exceeded)):
                return [_refuse(outcome) if no else outcome for outcome, no in zip(looked, exceeded, strict=True)]
        charges = list_charges(lines)
        if not charges:
            return looked
        outcomes = _spread(await self._spend(charges, now), [line.spends for line in lines])
        spent = [outcome or look for outcome, look in zip(outcomes, looked, strict=True)]
        debts = list_debts(lines, spent, drain=self.options.drain)
        if debts:
            await self._spend(debts, now)
        return spent

    async def _spend(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        outcomes = self._limiter.admit(charges, now)
        return await self._limiter.spend(charges, now) if outcomes is None else outcomes


def _spread(outcomes: Sequence[Outcome], asked: Iterable[object]) -> Outcomes:
    """Give each line that asked its outcome, in their order, and the others none."""
    left = iter(outcomes)
    return [next(left) if one else None for one in asked]


def _refuse(outcome: Outcome | None) -> Outcome | None:
    """Make a look that found too little the refusal that a spend would have met.

    A look knows no wait; the time until the limit is whole again is the one that is always enough.
    """
    if outcome is None or not outcome.allowed:
        return outcome
    return replace(outcome, allowed=False, retry_after=outcome.reset)
