"""`envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`: read, plan, gather (the only await), judge, write."""

from collections.abc import Callable
from dataclasses import dataclass

from model.instant import Instant
from model.quota import LimiterUnavailable
from model.rpc import RpcError
from ratelimit.gather import Counter, charge_lines
from ratelimit.judge import judge_lines
from ratelimit.plan import plan_lines
from ratelimit.question import Answer, Question, QuestionInvalid
from ratelimit.rules import Rules
from ratelimit.tally import RuleTally
from ratelimit.wire import read_question, write_answer

__all__ = ["Options", "RateLimitService", "RpcError"]

UNKNOWN = 2
UNAVAILABLE = 14


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
    """Answers for one set of rules; `rules` and `limiter` are each swapped as one attribute on reload.

    Without rules (None: they are still to come) no question is answered: to know none would be to let all pass.
    `clock` reads nanoseconds since the epoch. `record` is called once for each answer, with the question and the time
    at which it came in. `tally` counts the hits on each rule, `errors` the calls that had no answer.
    """

    def __init__(
        self,
        rules: Rules | None,
        limiter: Counter,
        clock: Callable[[], Instant],
        record: Callable[[Question, Answer, Instant], None] = lambda _question, _answer, _received: None,
        options: Options = Options(),
    ) -> None:
        self.rules = rules
        self.limiter = limiter
        self.options = options
        self.tally = RuleTally()
        self.errors = {"invalid": 0, "unavailable": 0}
        self._clock = clock
        self._record = record

    async def should_rate_limit(self, data: bytes) -> bytes:
        """Answer the bytes of a `RateLimitRequest` with those of a `RateLimitResponse`.

        Raises RpcError: UNKNOWN for a question that cannot be answered, as envoyproxy/ratelimit, and UNAVAILABLE where
        the limits cannot be counted, so that Envoy's `failure_mode_deny` decides.
        """
        now = self._clock()
        options = self.options
        rules = self.rules
        if rules is None:
            self.errors["unavailable"] += 1
            raise RpcError(UNAVAILABLE, "no rules yet")
        try:
            question = read_question(data)
            lines = plan_lines(rules, question, all_soft=options.all_soft)
        except QuestionInvalid as invalid:
            self.errors["invalid"] += 1
            raise RpcError(UNKNOWN, str(invalid)) from invalid
        try:
            outcomes = await charge_lines(self.limiter, lines, now, drain=options.drain)
        except LimiterUnavailable as away:
            self.errors["unavailable"] += 1
            raise RpcError(UNAVAILABLE, "limits cannot be counted now") from away
        answer = judge_lines(question, lines, outcomes, all_shadow=options.all_shadow, describe=options.describe)
        self.tally.record(lines, answer)
        self._record(question, answer, now)
        return write_answer(answer, options.families, problems=options.problems)
