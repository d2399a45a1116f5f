"""What the limiter asks of a place where limits are counted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from model.instant import Duration, Instant
from model.quota import Algorithm, Charge, Outcome

Identity = tuple[str, bool, bool, bool, tuple[str, ...], str]
"""Name, enforced, window, concurrent, key and principal: what makes a counter, and none of a quota's numbers."""


NEVER = 2**62
"""Stands for the store's clock where nothing is known of a bucket: none is younger."""


class StoreAway(Exception):
    """The store cannot be asked, for whatever cause: unreachable, too slow, loading, read-only, full, locked."""


@dataclass(slots=True)
class Draw:
    """What an instance reports of one bucket, and wants from it ahead of need.

    `owed` tokens were let through on credit and are charged whatever the bucket holds. `want` more are asked for, all
    or in part; a negative `want` gives tokens back. `deficit` is charged instead of a smaller `owed` where the store
    has forgotten the bucket since the store's tick `since` (it restarted empty, for instance): what this instance's
    share of the bucket lacked. Of a window only `owed` counts: it is recorded, and nothing is granted.
    """

    charge: Charge
    owed: int
    want: int
    deficit: int = 0
    since: int = NEVER


@dataclass(slots=True)
class Drawn:
    """What came of a draw: `granted` of the wanted tokens, `left` in the bucket, `reset` until it is full.

    `at` is the store's own clock in nanoseconds, to be handed back as `since`.
    """

    granted: int
    left: int
    reset: Duration
    at: Instant


class Store(Protocol):
    """Counters shared by all who open the same store."""

    async def spend(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        """Spend all charges or none, in one round trip for each shard.

        A store that several nodes share reads its own clock and takes no notice of `now`. Raises StoreAway.
        """
        ...

    async def draw(self, draws: Sequence[Draw], now: Instant) -> Sequence[Drawn | None]:
        """Report and take ahead of need, each bucket by itself; None for one that could not be reached."""
        ...

    async def refund(self, charges: Sequence[Charge], now: Instant) -> None:
        """Give back what the charges took, and the places of their holders. Raises StoreAway."""
        ...

    async def peek(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        """Tell what a spend of cost 0 would say; nothing is counted. Raises StoreAway."""
        ...


def identify(charge: Charge) -> Identity:
    """Name the counter of a charge: equal names for equal counters, whatever the numbers of the quota."""
    quota = charge.quota
    # not the enum itself: hashing one costs more than all the rest
    windowed = quota.algorithm is Algorithm.WINDOW
    return quota.name, quota.enforced, windowed, quota.concurrent, charge.key, charge.principal


def permits(charges: Sequence[Charge], outcomes: Sequence[Outcome]) -> bool:
    """Whether every enforced quota allows: then, and only then, all charges were spent."""
    return all(outcome.allowed or not charge.quota.enforced for charge, outcome in zip(charges, outcomes, strict=True))
