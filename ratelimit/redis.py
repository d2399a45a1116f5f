"""Counters in Redis: single, Sentinel or Cluster, shared by every instance that uses the same prefix."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, cast

from model.instant import Duration, Instant
from model.quota import Charge, Outcome
from model.snapshot import Store as Settings
from ratelimit.cluster import Cluster
from ratelimit.node import Answer, Node, Redirected
from ratelimit.script import Group, Naming
from ratelimit.store import Draw, Drawn, StoreAway, permits
from ratelimit.topology import open_sentinel, open_single


class Topology(Protocol):
    """Servers, and which of them a principal's counters live on."""

    def nodes(self) -> Sequence[Node]:
        """List the servers."""
        ...

    def find(self, principal: str) -> Node | None:
        """Find the server of a principal; None while it is unknown."""
        ...

    def refresh(self) -> None:
        """Take notice that a counter has moved."""
        ...

    def date(self, clock: Callable[[], Instant]) -> None:
        """Let `clock` date every call."""
        ...

    async def start(self, patience: float) -> None:
        """Connect, waiting at most `patience` seconds for it."""
        ...

    async def close(self) -> None:
        """Drop every connection."""
        ...


class Solo:
    """One server for all principals."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def nodes(self) -> Sequence[Node]:
        """List the one server."""
        return (self._node,)

    def find(self, principal: str) -> Node:
        """Find the one server."""
        del principal
        return self._node

    def refresh(self) -> None:
        """Nothing moves."""

    def date(self, clock: Callable[[], Instant]) -> None:
        """Let `clock` date every call."""
        self._node.clock = clock

    async def start(self, patience: float) -> None:
        """See `Node.start`."""
        await self._node.start(patience)

    async def close(self) -> None:
        """See `Node.close`."""
        await self._node.close()


class RedisStore:
    """See `ratelimit.store.Store`. Time is the server's own, whatever `now` says, unless `date` replaces it.

    `observe(mode, cause)` is told of each change between "shared" (every server answers) and "share" (one is away).
    """

    def __init__(self, settings: Settings, observe: Callable[[str, str], None] = lambda _mode, _cause: None) -> None:
        self.mode = ""
        self._observe = observe
        self._naming = Naming(settings.prefix, settings.hash_key)
        self._refunds: set[asyncio.Task[None]] = set()
        self._topology = self._choose(settings)

    @property
    def calls(self) -> int:
        """How many calls were made, all servers together."""
        return sum(node.calls for node in self._topology.nodes())

    async def start(self, patience: float = 1.0) -> None:
        """Connect, waiting at most `patience` seconds; the search goes on in the background until `close`."""
        await self._topology.start(patience)

    async def close(self) -> None:
        """Drop every connection and fail whoever still waits."""
        await self._topology.close()

    def date(self, clock: Callable[[], Instant]) -> None:
        """Let `clock` date every call rather than the servers' own clocks: for tests and for replays."""
        self._topology.date(clock)

    def find(self, charge: Charge) -> Node | None:
        """Find the server on which a charge's counter lives."""
        return self._topology.find(charge.principal)

    def away(self, charge: Charge) -> bool:
        """Whether the server on which a charge's counter lives is away, or not known."""
        node = self.find(charge)
        return node is None or node.away

    def lost(self, charge: Charge) -> Duration:
        """How long ago the server of a charge's counter came back empty, while it is being told what was spent."""
        if not any(node.lost for node in self._topology.nodes()):
            return 0
        node = self.find(charge)
        return 0 if node is None else node.lost

    async def spend(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        """See `ratelimit.store.Store`. Several shards are asked at once; where one refuses, the others are refunded."""
        del now
        parts = self._split([charge.principal for charge in charges])
        groups = [Group("spend", tuple(charges[index] for index in part)) for part in parts]
        if len(groups) == 1:
            return cast("list[Outcome]", await self._ask(groups[0]))
        answers = await asyncio.gather(*map(self._ask, groups), return_exceptions=True)
        spent = [
            group
            for group, answer in zip(groups, answers, strict=True)
            if not isinstance(answer, BaseException)
            and permits(cast("tuple[Charge, ...]", group.items), cast("list[Outcome]", answer))
        ]
        if len(spent) < len(groups):
            self._refund_later(spent)
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        if failed:
            raise failed[0]
        return cast("list[Outcome]", _gather(parts, cast("list[Answer]", answers)))

    async def draw(self, draws: Sequence[Draw], now: Instant) -> Sequence[Drawn | None]:
        """See `ratelimit.store.Store`."""
        del now
        parts = self._split([draw.charge.principal for draw in draws])
        groups = [Group("draw", tuple(draws[index] for index in part)) for part in parts]
        answers = await asyncio.gather(*map(self._ask, groups), return_exceptions=True)
        drawn: list[Drawn | None] = [None] * len(draws)
        for part, answer in zip(parts, answers, strict=True):
            if isinstance(answer, BaseException):
                if not isinstance(answer, StoreAway):
                    raise answer
                continue
            for index, one in zip(part, cast("list[Drawn]", answer), strict=True):
                drawn[index] = one
        return drawn

    async def refund(self, charges: Sequence[Charge], now: Instant) -> None:
        """See `ratelimit.store.Store`."""
        del now
        parts = self._split([charge.principal for charge in charges])
        for part in parts:
            await self._ask(Group("refund", tuple(charges[index] for index in part)))

    async def peek(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        """See `ratelimit.store.Store`."""
        del now
        parts = self._split([charge.principal for charge in charges])
        groups = [Group("look", tuple(charges[index] for index in part)) for part in parts]
        return cast("list[Outcome]", _gather(parts, await asyncio.gather(*map(self._ask, groups))))

    async def _ask(self, group: Group) -> Answer:
        first = group.items[0]
        node = self.find(first.charge if isinstance(first, Draw) else first)
        if node is None:
            raise StoreAway("the cluster is not known yet")
        if node.lost and group.verb in ("spend", "look") and not is_sign(group):
            raise StoreAway("the server lost its data, and is being told what was spent")
        try:
            return await node.ask(group)
        except Redirected:
            self._topology.refresh()
            raise

    def _split(self, principals: Sequence[str]) -> list[list[int]]:
        """Part the indexes of what one script can reach at once: all of them, or in a cluster those of a principal."""
        if isinstance(self._topology, Solo):
            return [list(range(len(principals)))]
        parts: dict[str, list[int]] = {}
        for index, principal in enumerate(principals):
            parts.setdefault(principal, []).append(index)
        return list(parts.values())

    def _refund_later(self, groups: Sequence[Group]) -> None:
        """Give back what some shards took of a spend that another refused; nobody waits for it."""
        for group in groups:
            task = asyncio.get_running_loop().create_task(self._refund_quietly(group))
            self._refunds.add(task)
            task.add_done_callback(self._refunds.discard)

    async def _refund_quietly(self, group: Group) -> None:
        with suppress(StoreAway):
            await self._ask(Group("refund", group.items))

    def _changed(self, cause: str) -> None:
        nodes = self._topology.nodes()
        mode = "share" if not nodes or any(node.away for node in nodes) else "shared"
        if mode != self.mode:
            self.mode = mode
            self._observe(mode, cause)

    def _choose(self, settings: Settings) -> Topology:
        if settings.topology == "cluster":
            return Cluster(settings, self._naming, self._changed)
        if settings.topology == "sentinel":
            opener = open_sentinel(settings)
        elif settings.topology == "single":
            opener = open_single(settings)
        else:
            raise ValueError(f"unknown topology: {settings.topology!r}")
        return Solo(Node(opener, self._naming, settings.budget, self._changed))


def is_sign(group: Group) -> bool:
    """Tell whether a group asks for places only: nobody reports those, so there is nothing to wait for."""
    return all(not isinstance(item, Draw) and item.quota.concurrent for item in group.items)


def _gather(parts: Sequence[Sequence[int]], answers: Sequence[Answer]) -> list[object]:
    """Put the answers of the parts back into the order of what was asked."""
    whole: dict[int, object] = {}
    for part, answer in zip(parts, answers, strict=True):
        whole |= dict(zip(part, answer, strict=True))
    return [whole[index] for index in range(len(whole))]
