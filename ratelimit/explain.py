"""Which rules and limits would a request meet, and what is left of them: a question without a count."""

from collections.abc import Sequence
from typing import Any

from model.instant import SECOND, Instant
from model.quota import Outcome
from ratelimit.gather import Counter
from ratelimit.plan import Line, find_refusing, list_looks, plan_lines, would_exceed
from ratelimit.question import Question
from ratelimit.rules import Entry, Rule, Rules, name_entry

Explanation = dict[str, Any]


async def explain_question(
    rules: Rules, question: Question, limiter: Counter, now: Instant, *, all_soft: bool = False
) -> Explanation:
    """Explain what would become of a question asked at `now`, as plain data for JSON; nothing is counted.

    The shape is {"domain", "would": "pass" or "refuse", "descriptors": [...]}, with an entry for each descriptor in
    their order; see `explain_line`. Raises QuestionInvalid as an answer would, and LimiterUnavailable.
    """
    lines = plan_lines(rules, question, all_soft=all_soft)
    left = iter(await limiter.peek(list_looks(lines), now))
    outcomes = [next(left) if line.charge is not None else None for line in lines]
    exceeded = [would_exceed(line, outcome) for line, outcome in zip(lines, outcomes, strict=True)]
    refusing = find_refusing(lines, exceeded)
    return {
        "domain": question.domain,
        "would": "refuse" if any(refusing) else "pass",
        "descriptors": [
            explain_line(rules, question.domain, line, outcome) | {"room": not full, "refuses": refuses}
            for line, outcome, full, refuses in zip(lines, outcomes, exceeded, refusing, strict=True)
        ],
    }


def explain_line(rules: Rules, domain: str, line: Line, outcome: Outcome | None) -> Explanation:
    """Explain one descriptor: its entries, the state of the rule for it, and why.

    `state` is "limited", "unlimited", "replaced" or "none". With a limit there are `limit`, `hits`, `remaining`
    (before the request) and `reset_seconds`; with a rule its `rule`, `source`, `metric` and `modes`.
    """
    explained: Explanation = {"entries": [{"key": key, "value": value} for key, value in line.descriptor.entries]}
    if line.match is None:
        return explained | {"state": "none", "because": _explain_absence(rules, domain, line.descriptor.entries)}
    rule = line.match.rule
    explained |= {
        "rule": rule.path,
        "source": rule.source,
        "metric": line.match.metric,
        "modes": _list_modes(line, rule),
    }
    if line.replaced:
        return explained | {"state": "replaced", "because": f"the rule {line.replaced} replaces it in this request"}
    if rule.unlimited:
        return explained | {"state": "unlimited", "because": "the rule says unlimited"}
    explained |= {
        "state": "limited",
        "because": "the descriptor brings its own limit" if line.descriptor.limit else "the rule fits the descriptor",
        "limit": {
            "name": rule.quota.name,
            "requests": rule.quota.count,
            "unit": rule.unit.name.lower() if rule.unit else "",
            "algorithm": rule.quota.algorithm.value,
        },
        "hits": line.hits,
        "remaining": outcome.remaining if outcome else 0,
    }
    return explained | {"reset_seconds": -(-outcome.reset // SECOND)} if outcome else explained


def _list_modes(line: Line, rule: Rule) -> list[str]:
    modes = {"shadow": rule.shadow, "quota": line.soft, "detailed": rule.detailed}
    return [name for name, holds in modes.items() if holds]


def _explain_absence(rules: Rules, domain: str, entries: Sequence[Entry]) -> str:
    """Say how far the descriptor came and what stood in the way."""
    if domain not in rules.domains:
        return f"no file names the domain '{domain}'"
    trail = rules.walk_tree(domain, entries)
    if len(trail) < len(entries):
        reached = trail[-1].path if trail else domain
        return f"nothing below {reached} fits the entry '{name_entry(*entries[len(trail)])}'"
    if not trail:
        return "the descriptor has no entries"
    below = " itself, only below it" if trail[-1].has_children() else ""
    return f"there is no limit at {trail[-1].path}{below}"
