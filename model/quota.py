"""Quotas and the port through which authz reaches the limiter.

A quota says how much; a charge says who spends how much of it; an outcome says how it went. Charges of one spend are
all or nothing: where one enforced quota refuses, none of them is spent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from model.instant import Duration, Instant


class Algorithm(StrEnum):
    """How a quota is counted: a token bucket (GCRA) or a sliding window, strict about any window of one period."""

    BUCKET = "bucket"
    WINDOW = "window"


@dataclass(frozen=True, slots=True)
class Quota:
    """`count` requests per `period` nanoseconds.

    For a bucket, `burst` is its capacity: what may pass at one instant when it is full; it refills `count` per
    `period`. For a window `burst` is not used. `enforced` False counts beside the enforced ones and never refuses
    (trial). `concurrent` marks a quota of places held at one time rather than requests per period; `period` is then
    the longest time a place is held without a sign of life.
    """

    name: str
    count: int
    period: Duration
    burst: int
    algorithm: Algorithm = Algorithm.BUCKET
    enforced: bool = True
    concurrent: bool = False


@dataclass(frozen=True, slots=True)
class Charge:
    """`cost` of `quota` for the principal that `key` names.

    `key` is a tuple of parts that is never joined with a separator: ("partner", "client-7", "accounts") and
    ("partner", "client-7:accounts") are two keys. `principal` picks the shard: all keys of one principal live on one;
    it is part of what the key names, so charges that mean the same counter carry the same principal. `holder` names
    who takes a place of a concurrent quota (a request id): spending again with it renews the place.
    """

    quota: Quota
    key: tuple[str, ...]
    cost: int = 1
    principal: str = ""
    holder: str = ""


@dataclass(slots=True)
class Outcome:
    """How one charge went. Not frozen: one is built for every charge of every request.

    `allowed` is the word of this quota alone: the spend went through where every enforced quota allows it. Where
    another one refused, nothing was spent and `remaining` is what was there before.

    `remaining` is what is left after the spend, in whole requests, never negative. `retry_after` is the time until
    the same charge would be accepted (0 when allowed). `reset` is the time until the quota is whole again (bucket) or
    the window has rolled (window). `degraded` is true where the answer came from the instance's own share because the
    shared store is away.
    """

    allowed: bool
    remaining: int
    retry_after: Duration
    reset: Duration
    degraded: bool = False


class LimiterUnavailable(Exception):
    """No honest answer can be had: the store is away and no share of the instance is configured."""


class Limiter(Protocol):
    """The port to the rate limiter, wired by sidecar."""

    def admit(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome] | None:
        """Decide from resident state without waiting; None where the store must be asked.

        The outcomes are in the order of the charges. All or nothing over the enforced ones.
        """
        ...

    async def spend(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        """Decide with at most one round trip to the store, bounded by its budget (5 ms), never retried.

        Raises LimiterUnavailable where no answer can be had at all.
        """
        ...
