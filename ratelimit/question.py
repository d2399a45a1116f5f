"""What a proxy asks the rate limit service, and what it is told; free of the wire's own types.

None of them is frozen: they are built on the path of every call, and nobody keeps them.
"""

from dataclasses import dataclass
from typing import Any

from model.fields import Limited
from model.instant import Duration
from ratelimit.rules import Entry, Rule


@dataclass(slots=True)
class Descriptor:
    """One descriptor: what is to be limited.

    `hits` is its own `hits_addend`: 0 looks and does not count, None takes that of the request. `negative` gives hits
    back. `limit` is the limit that it brings with it: requests, and the number of a unit.
    """

    entries: tuple[Entry, ...]
    hits: int | None = None
    negative: bool = False
    limit: tuple[int, int] | None = None


@dataclass(slots=True)
class Question:
    """A `RateLimitRequest`. `hits` 0 is the wire's way to leave it out, and means 1."""

    domain: str
    descriptors: tuple[Descriptor, ...]
    hits: int = 0


@dataclass(slots=True)
class Status:
    """How one descriptor fared.

    `exceeded` says that there was no room, `over` what the proxy is told: a shadow rule says OK all the same.
    `refusing` marks a cause of the refusal. `rule` is None where none holds, and where it was replaced. `remaining` is
    in requests, `reset` in nanoseconds: the wait where there was no room, otherwise the time until the limit is whole.
    `scope` are the keys of the descriptor without their values, of which one may be a secret.
    """

    exceeded: bool = False
    over: bool = False
    refusing: bool = False
    rule: Rule | None = None
    remaining: int = 0
    reset: Duration = 0
    scope: tuple[str, ...] = ()


@dataclass(slots=True)
class Answer:
    """A `RateLimitResponse`: a status for each descriptor, in their order.

    `limits` are the limits that the request met and that a client may hear of. `metadata` is None where there is
    nothing to tell the proxy.
    """

    refused: bool
    statuses: tuple[Status, ...]
    limits: tuple[Limited, ...] = ()
    metadata: dict[str, Any] | None = None


class QuestionInvalid(Exception):
    """The question cannot be answered: no domain, no descriptor, or a limit in no unit."""
