"""The limiter that the other rooms are given: `open_limiter` builds it from the snapshot's store."""

from collections.abc import Callable, Sequence
from typing import Protocol

from model.instant import Instant
from model.quota import Charge, Outcome
from model.snapshot import Store as Settings
from ratelimit.memory import MemoryStore
from ratelimit.redis import RedisStore
from ratelimit.shared import Backing, SharedLimiter


class OpenLimiter(Protocol):
    """`model.quota.Limiter` with a life of its own: started, asked, looked into, closed."""

    def admit(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome] | None:
        """See `model.quota.Limiter`."""
        ...

    async def spend(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        """See `model.quota.Limiter`."""
        ...

    async def start(self) -> None:
        """Begin the background work. Returns at once where the store is away: it is looked for in the background."""
        ...

    async def close(self) -> None:
        """Give back what is leased and end the background work."""
        ...

    async def peek(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        """Tell what is left of each quota, counting nothing."""
        ...

    async def refund(self, charges: Sequence[Charge], now: Instant) -> None:
        """Give back hits that were spent, as far as they still count; no limit is ever more than whole."""
        ...

    async def release(self, charges: Sequence[Charge], now: Instant) -> None:
        """Free the places of concurrent quotas that the charges' holders hold. Never raises."""
        ...

    def health(self) -> str:
        """Name the mode in force: "memory", "shared", or "share" while the shared store is away."""
        ...


class MemoryLimiter:
    """Every decision from counters of this process, without ever waiting."""

    def __init__(self) -> None:
        self._store = MemoryStore()

    def admit(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        """Spend all or none; there is always an answer."""
        return self._store.take(charges, now)

    async def spend(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        """See `admit`."""
        return self._store.take(charges, now)

    async def start(self) -> None:
        """Nothing runs in the background."""

    async def close(self) -> None:
        """Nothing to give back."""

    async def peek(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        """Tell what is left of each quota, counting nothing."""
        return await self._store.peek(charges, now)

    async def refund(self, charges: Sequence[Charge], now: Instant) -> None:
        """Give back hits that were spent."""
        await self._store.refund(charges, now)

    async def release(self, charges: Sequence[Charge], now: Instant) -> None:
        """Free the holders' places."""
        await self._store.refund(charges, now)

    def health(self) -> str:
        """Name the mode: memory cannot be away."""
        return "memory"


def open_limiter(
    settings: Settings,
    clock: Callable[[], Instant],
    observe: Callable[[str, str], None] = lambda _mode, _cause: None,
    pool: Backing | None = None,
    instances: int = 1,
) -> OpenLimiter:
    """Build the limiter for a snapshot's store; `start` it before use.

    `clock` reads nanoseconds since the epoch. `observe(mode, cause)` is told once of each change of mode ("shared",
    "share") and why, never once per request. `pool` is a memory outside of this process, which stands in for its own
    where the settings say memory. `instances` is how many limiters share the store for sure, this one included.
    Raises ValueError for settings that name no store.
    """
    if settings.kind == "memory":
        return MemoryLimiter() if pool is None else SharedLimiter(pool, settings, clock, instances)
    if settings.kind == "redis":
        return SharedLimiter(RedisStore(settings, observe), settings, clock, instances)
    raise ValueError(f"unknown kind of store: {settings.kind!r}")
