"""Limits in memory that several workers share: counted in the parent, asked over the line, leased by each worker.

The store is memory's own and the limiter in front of it is the one that stands in front of Redis: a worker decides from
its leases, and while the parent is slow to answer, from its share. A worker that dies takes no count with it.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from model.instant import SECOND, Duration, Instant
from model.quota import Charge, Outcome
from ratelimit.memory import MemoryStore
from ratelimit.shared import Backing
from ratelimit.store import Draw, Drawn, StoreAway
from sidecar.link import LinkClosed

PATIENCE = 1.0
"""Seconds for what no decision waits for."""
REST = 0.05
"""Seconds for which the parent is left alone after it was too slow once."""


@dataclass(frozen=True, slots=True)
class Company:
    """How many workers there are, and the memory that they count in together; None where one counts alone."""

    workers: int = 1
    pool: Backing | None = None


ALONE = Company()


class Asker(Protocol):
    """Sends a question over the line, as `sidecar.link.Link.ask` does."""

    def __call__(self, kind: str, value: Any = None, patience: float = 5.0) -> Any:
        """Wait for the answer. Raises LinkClosed or TimeoutError."""
        ...


class Pool:
    """The parent's side: the counters."""

    def __init__(self, clock: Callable[[], Instant]) -> None:
        self._store = MemoryStore()
        self._clock = clock

    async def answer(self, kind: str, value: Any) -> Any:
        """Answer a worker. Raises LookupError for what is no question about limits."""
        now = self._clock()
        match kind:
            case "spend":
                return await self._store.spend(value, now)
            case "draw":
                return await self._store.draw(value, now)
            case "refund":
                return await self._store.refund(value, now)
            case "peek":
                return await self._store.peek(value, now)
        raise LookupError(f"workers do not ask for {kind!r}")


class PooledStore:
    """The worker's side, see `ratelimit.shared.Backing`. `budget` is the longest that a decision waits."""

    def __init__(self, ask: Asker, budget: Duration) -> None:
        self.mode = "shared"
        self._ask = ask
        self._budget = budget / SECOND
        self._rests_until = 0.0

    async def start(self, patience: float) -> None:
        """Do nothing: the line is open before there is a worker."""
        del patience

    async def close(self) -> None:
        """Do nothing: the line is not ours to close."""

    def away(self, charge: Charge) -> bool:
        """Whether the parent was too slow a moment ago."""
        del charge
        return asyncio.get_running_loop().time() < self._rests_until

    async def spend(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        """See `ratelimit.store.Store`."""
        del now
        outcomes: Sequence[Outcome] = await self._question("spend", tuple(charges), self._budget)
        return outcomes

    async def draw(self, draws: Sequence[Draw], now: Instant) -> Sequence[Drawn | None]:
        """See `ratelimit.store.Store`."""
        del now
        try:
            drawn: Sequence[Drawn | None] = await self._question("draw", tuple(draws), PATIENCE)
        except StoreAway:
            return [None] * len(draws)
        return drawn

    async def refund(self, charges: Sequence[Charge], now: Instant) -> None:
        """See `ratelimit.store.Store`."""
        del now
        await self._question("refund", tuple(charges), PATIENCE)

    async def peek(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        """See `ratelimit.store.Store`."""
        del now
        outcomes: Sequence[Outcome] = await self._question("peek", tuple(charges), PATIENCE)
        return outcomes

    async def _question(self, kind: str, value: Any, patience: float) -> Any:
        try:
            return await self._ask(kind, value, patience)
        except (LinkClosed, TimeoutError) as error:
            self._rests_until = asyncio.get_running_loop().time() + REST
            raise StoreAway("the parent does not answer") from error
