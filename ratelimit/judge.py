"""From outcomes to the answer: a status for each descriptor, the verdict over all of them, what is told beside."""

from collections.abc import Mapping, Sequence
from typing import Any

from model.fields import Limited
from model.quota import Outcome
from ratelimit.plan import Line, find_refusing, is_over
from ratelimit.question import Answer, Descriptor, Question, Status
from ratelimit.rules import Rule, Unit

UNLIMITED_REMAINING = 2**32 - 1


def judge_lines(
    question: Question,
    lines: Sequence[Line],
    outcomes: Sequence[Outcome | None],
    *,
    all_shadow: bool = False,
    describe: bool = False,
) -> Answer:
    """Judge a request by the outcomes of its lines, None for a line without a charge.

    With `all_shadow` no request is refused, and the client hears of no limit, for none is enforced. With `describe`
    the answer always brings metadata for the proxy, otherwise only where a rule has some.
    """
    over = [is_over(line, outcome) for line, outcome in zip(lines, outcomes, strict=True)]
    refusing = find_refusing(lines, over)
    settled = list(map(_settle, lines, outcomes, over)) if any(over) else outcomes
    statuses = tuple(map(_make_status, lines, settled, over, refusing))
    passed = [line.match.rule for line, exceeded in zip(lines, over, strict=True) if line.match and not exceeded]
    described = describe or any(rule.metadata for rule in passed)
    return Answer(
        refused=any(refusing) and not all_shadow,
        statuses=statuses,
        limits=() if all_shadow else _list_limits(lines, settled),
        metadata=describe_question(question, passed) if described else None,
    )


def describe_question(question: Question, passed: Sequence[Rule]) -> dict[str, Any]:
    """Describe the question and the rules that passed, in the shape in which envoyproxy/ratelimit does.

    `metadata` is that of all rules that passed, merged: of two plain values under one name the first one stands.
    """
    described: dict[str, Any] = {
        "domain": question.domain,
        "descriptors": [_describe_descriptor(descriptor) for descriptor in question.descriptors],
    }
    if question.hits:
        described["hitsAddend"] = question.hits
    merged: dict[str, object] = {}
    for rule in passed:
        if rule.metadata:
            merged = _merge_metadata(merged, rule.metadata)
    if merged:
        described["metadata"] = merged
    return described


def _settle(line: Line, outcome: Outcome | None, over: bool) -> Outcome | None:
    """Settle what became of a line: a look that found nothing is a refusal, and so is a limit of zero requests.

    No wait helps against a limit of zero; its period stands for one.
    """
    if line.blocked and line.match is not None:
        period = line.match.rule.quota.period
        return Outcome(allowed=False, remaining=0, retry_after=period, reset=period)
    if outcome is not None and over and outcome.allowed:
        return Outcome(False, 0, outcome.retry_after or outcome.reset, outcome.reset, outcome.degraded)
    return outcome


def _make_status(line: Line, outcome: Outcome | None, over: bool, refusing: bool) -> Status:
    if line.match is None or line.replaced:
        return Status()
    rule = line.match.rule
    if outcome is None:
        return Status(rule=rule, remaining=UNLIMITED_REMAINING)
    if over:
        # Nothing is left for this descriptor, whatever a cheaper one would find: Envoy describes the limit with the
        # fewest left, and that must be the one that refused.
        return Status(
            exceeded=True,
            over=not rule.shadow,
            refusing=refusing,
            rule=rule,
            reset=outcome.retry_after,
            scope=tuple(key for key, _ in line.descriptor.entries),
        )
    return Status(rule=rule, remaining=min(outcome.remaining, UNLIMITED_REMAINING), reset=outcome.reset)


def _list_limits(lines: Sequence[Line], outcomes: Sequence[Outcome | None]) -> tuple[Limited, ...]:
    """List the limits that a client may hear of: those that can refuse, each as the request met it."""
    return tuple(
        (line.match.rule.quota, outcome)
        for line, outcome in zip(lines, outcomes, strict=True)
        if outcome is not None and line.match is not None and not line.match.rule.shadow
    )


def _describe_descriptor(descriptor: Descriptor) -> dict[str, object]:
    described: dict[str, object] = {"entries": [f"{key}={value}" for key, value in descriptor.entries]}
    if descriptor.limit is not None:
        count, unit = descriptor.limit
        described["limit"] = f"requests_per_unit:{count} unit:{Unit(unit).name}"
    if descriptor.hits is not None:
        described["hitsAddend"] = descriptor.hits
    return described


def _merge_metadata(into: Mapping[str, object], other: Mapping[str, object]) -> dict[str, object]:
    merged = dict(into)
    for name, value in other.items():
        present = merged.get(name)
        if isinstance(present, Mapping) and isinstance(value, Mapping):
            merged[name] = _merge_metadata(present, value)
        else:
            merged.setdefault(name, value)
    return merged
