"""From a question to charges: which rule each descriptor meets, and what it is to be charged.

Hard limits refuse. Soft ones (quota_mode) refuse only where all of them are used up. Shadow ones never refuse. A
descriptor that only looks (hits 0) refuses like any other where nothing is left, and counts nothing. One that gives
hits back (negative hits) refuses nobody.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from model.quota import Charge, Outcome
from ratelimit.question import Descriptor, Question, QuestionInvalid
from ratelimit.rules import Match, Rule, Rules, Unit, unenforce_quota


@dataclass(slots=True)
class Line:
    """One descriptor of a request under judgement.

    `match` is None where no rule holds; `replaced` names the rule in whose favour this one was dropped. `limited` says
    that a limit holds, be it of zero requests. `charge` is None where nothing is counted: without a rule, unlimited,
    replaced, or with a limit of zero. `refund` gives the charge's cost back; `hits`, those that count, are then 0.
    """

    descriptor: Descriptor
    match: Match | None = None
    replaced: str = ""
    hits: int = 1
    limited: bool = False
    soft: bool = False
    refund: bool = False
    charge: Charge | None = None

    @property
    def blocked(self) -> bool:
        """Whether the limit is zero requests, so that there is nothing to count."""
        return self.limited and self.charge is None

    @property
    def looks(self) -> bool:
        """Whether the descriptor asks and does not count."""
        return not self.hits and not self.refund

    @property
    def spends(self) -> bool:
        """Whether the descriptor has hits to count."""
        return self.charge is not None and self.hits > 0

    @property
    def hard(self) -> bool:
        """Whether the descriptor alone can refuse the request."""
        return self.limited and not self.soft and self._refuses

    @property
    def quota(self) -> bool:
        """Whether the descriptor can refuse the request together with all others of its kind."""
        return self.limited and self.soft and self._refuses

    @property
    def _refuses(self) -> bool:
        return self.match is not None and not self.match.rule.shadow and not self.refund


def plan_lines(rules: Rules, question: Question, *, all_soft: bool = False) -> list[Line]:
    """Plan one line for each descriptor, in their order.

    `all_soft` treats every limit as a soft one. Raises QuestionInvalid as envoyproxy/ratelimit does.
    """
    if not question.domain:
        raise QuestionInvalid("rate limit domain must not be empty")
    if not question.descriptors:
        raise QuestionInvalid("rate limit descriptor list must not be empty")
    matches = [_find_match(rules, question.domain, descriptor) for descriptor in question.descriptors]
    replaced = _list_replaced(match.rule for match in matches if match is not None)
    return [
        _plan_line(question, descriptor, match, replaced, all_soft)
        for descriptor, match in zip(question.descriptors, matches, strict=True)
    ]


def look_first(lines: Sequence[Line]) -> bool:
    """Tell whether a request must be looked at before anything is spent.

    It must where a line asks and spends nothing, and where a spend, which is all or nothing over the hard limits that
    it charges, could take from one limit although another refuses: it knows nothing of a limit of zero, nor of soft
    limits that refuse together.
    """
    spends = zero = soft = others = False
    for line in lines:
        if line.charge is not None and not line.spends:
            return True
        spends = spends or line.spends
        zero = zero or (line.blocked and line.hard)
        soft = soft or line.soft
        others = others or (line.limited and not line.soft)
    return spends and (zero or (soft and others))


def list_charges(lines: Iterable[Line]) -> list[Charge]:
    """List the charges of all lines that spend."""
    return [line.charge for line in lines if line.charge is not None and line.spends]


def list_refunds(lines: Iterable[Line]) -> list[Charge]:
    """List what is to be given back. It is whatever becomes of the request: those hits did not happen."""
    return [line.charge for line in lines if line.charge is not None and line.refund]


def list_looks(lines: Iterable[Line]) -> list[Charge]:
    """List the charges of all lines that count, each to be asked about only."""
    return [replace(line.charge, cost=0) for line in lines if line.charge is not None]


def is_over(line: Line, outcome: Outcome | None) -> bool:
    """Tell whether a line is over its limit: refused, or a look that found no room for one more hit."""
    if not line.limited or line.refund:
        return False
    if outcome is None:
        return line.blocked
    return not outcome.allowed or (line.looks and not outcome.remaining)


def would_exceed(line: Line, outcome: Outcome | None) -> bool:
    """Tell from a look whether the spend of a line would be refused."""
    if outcome is None or line.looks:
        return is_over(line, outcome)
    return outcome.remaining < line.hits


def list_debts(lines: Sequence[Line], outcomes: Sequence[Outcome | None], *, drain: bool) -> list[Charge]:
    """List what is still to be charged of hits that have happened already.

    A proxy that learns the cost from the answer (tokens of a model, say) debits it when the stream is done. If a debit
    greater than what is left counted nothing, the rest would let every later look pass. So a debit of several hits, on
    its own descriptor, takes all that is left of a soft limit, and with `drain` of any limit.
    """
    return [
        replace(line.charge, cost=outcome.remaining)
        for line, outcome in zip(lines, outcomes, strict=True)
        if line.charge is not None
        and outcome is not None
        and (drain or line.soft)
        and (line.descriptor.hits or 0) > outcome.remaining > 0
        and not outcome.allowed
    ]


def find_refusing(lines: Sequence[Line], over: Sequence[bool]) -> list[bool]:
    """Tell which lines refuse the request: the hard ones that are over, and all soft ones where all of them are."""
    if not any(over):
        return [False] * len(over)
    soft = [exceeded for line, exceeded in zip(lines, over, strict=True) if line.quota]
    exhausted = bool(soft) and all(soft)
    return [exceeded and (line.hard or (exhausted and line.quota)) for line, exceeded in zip(lines, over, strict=True)]


def _find_match(rules: Rules, domain: str, descriptor: Descriptor) -> Match | None:
    if descriptor.limit is None:
        return rules.find_match(domain, descriptor.entries)
    count, number = descriptor.limit
    try:
        unit = Unit(number)
    except ValueError:
        raise QuestionInvalid(f"rate limit override has no known unit: {number}") from None
    return rules.make_override(domain, descriptor.entries, count, unit)


def _list_replaced(rules: Iterable[Rule]) -> dict[str, str]:
    """Map the name of each rule that another one replaces to the path of that other one."""
    return {name: rule.path for rule in rules for name in rule.replaces}


def _plan_line(
    question: Question, descriptor: Descriptor, match: Match | None, replaced: dict[str, str], all_soft: bool
) -> Line:
    hits = _count_hits(question, descriptor)
    if match is None:
        return Line(descriptor, hits=hits)
    rule = match.rule
    if rule.unlimited:
        return Line(descriptor, match, hits=hits)
    if rule.name and rule.name in replaced:
        return Line(descriptor, match, replaced[rule.name], hits)
    soft = rule.soft or all_soft
    if not rule.quota.count:
        return Line(descriptor, match, hits=0 if descriptor.negative else hits, limited=True, soft=soft)
    # All counters of a request live on one shard, that of the domain: only there can a spend be all or nothing.
    quota = unenforce_quota(rule.quota) if soft or rule.shadow else rule.quota
    charge = Charge(quota, match.key, hits, question.domain)
    if descriptor.negative and hits:
        return Line(descriptor, match, hits=0, limited=True, soft=soft, refund=True, charge=charge)
    return Line(descriptor, match, hits=hits, limited=True, soft=soft, charge=charge)


def _count_hits(question: Question, descriptor: Descriptor) -> int:
    """Count the hits: the descriptor's own, be they 0, otherwise those of the request, which are at least 1."""
    return max(question.hits, 1) if descriptor.hits is None else descriptor.hits
