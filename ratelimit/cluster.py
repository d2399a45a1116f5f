"""The masters of a Redis Cluster, and which of them a counter lives on.

The map of slots is read in the background: at the start, after a redirection, and again and again while any master is
away, so that a promoted replica is found. A counter whose master is away is decided from the instance's share; the
other shards go on as before.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from redis.asyncio import Connection
from redis.crc import key_slot
from redis.exceptions import RedisError

from model.instant import Instant
from model.snapshot import Store as Settings
from ratelimit.epoch import Epochs
from ratelimit.node import LAST_PROBE, PROBE_TIMEOUT, Node, Opener, name_cause
from ratelimit.script import Naming
from ratelimit.store import StoreAway
from ratelimit.topology import Address, ask_once, connect, connect_options

SLOTS = 16384


class Cluster:
    """The shards of a cluster that `settings.urls` lead into. `changed` is told when one goes away or comes back."""

    def __init__(self, settings: Settings, naming: Naming, changed: Callable[[str], None]) -> None:
        self._settings = settings
        self._naming = naming
        self._changed = changed
        self._seeds = [connect_options(settings, url) for url in settings.urls]
        self._nodes: dict[Address, Node] = {}
        self._epochs = Epochs()  # a promoted replica is another server with the same data
        self._owners: list[Node | None] = [None] * SLOTS
        self._watch: asyncio.Task[None] | None = None
        self._stale = asyncio.Event()
        self._known = asyncio.Event()
        self._clock: Callable[[], Instant] | None = None

    def nodes(self) -> Sequence[Node]:
        """List the masters that are known."""
        return tuple(self._nodes.values())

    def find(self, principal: str) -> Node | None:
        """Find the master on which a principal's counters live; None while the map is unknown."""
        return self._owners[key_slot(self._naming.tag(principal).encode())]

    def refresh(self) -> None:
        """Read the map again soon: a counter has moved."""
        self._stale.set()

    def date(self, clock: Callable[[], Instant]) -> None:
        """Let `clock` date every call."""
        self._clock = clock
        for node in self._nodes.values():
            node.clock = clock

    async def start(self, patience: float) -> None:
        """Read the map and connect, waiting at most `patience` seconds for both."""
        self._watch = asyncio.get_running_loop().create_task(self._follow())
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._known.wait()

    async def close(self) -> None:
        """Stop watching and drop every connection."""
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
        for node in self._nodes.values():
            await node.close()

    async def _follow(self) -> None:
        while True:
            self._stale.clear()
            try:
                await self._read_map()
            except Exception as error:  # noqa: BLE001 - a watch that dies would keep an old map for ever
                self._changed(str(error) if isinstance(error, StoreAway) else name_cause(error))
            else:
                self._known.set()
            quiet = bool(self._nodes) and not any(node.away for node in self._nodes.values())
            with suppress(TimeoutError):
                async with asyncio.timeout(None if quiet and not self._stale.is_set() else LAST_PROBE):
                    await self._stale.wait()
            await asyncio.sleep(0.02)  # many redirections are one change

    async def _read_map(self) -> None:
        """Take the slot map of the first server that knows all of it."""
        known = [self._seeds[0] | {"host": host, "port": port} for host, port in self._nodes]
        causes = []
        for options in (*known, *self._seeds):
            try:
                async with asyncio.timeout(PROBE_TIMEOUT):
                    ranges = await ask_once(options, "CLUSTER", "SLOTS")
            except (OSError, RedisError, TimeoutError) as error:
                causes.append(name_cause(error))
                continue
            if ranges:
                await self._adopt(ranges, options["host"])
                return
            causes.append("the cluster has no slots")
        raise StoreAway("; ".join(causes))

    async def _adopt(self, ranges: Sequence[Any], asked: str) -> None:
        owners: dict[Address, list[tuple[int, int]]] = {}
        for first, last, master, *_ in ranges:
            owners.setdefault((master[0].decode() or asked, int(master[1])), []).append((int(first), int(last)))
        gone = [address for address in self._nodes if address not in owners]
        starting = []
        for address, spans in owners.items():
            if address not in self._nodes:
                self._nodes[address] = self._build(address, spans)
                starting.append(self._nodes[address])
            for first, last in spans:
                self._owners[first : last + 1] = [self._nodes[address]] * (last + 1 - first)
        await asyncio.gather(*(node.start(PROBE_TIMEOUT) for node in starting))
        for address in gone:
            await self._nodes.pop(address).close()
            self._changed("")

    def _build(self, address: Address, spans: Sequence[tuple[int, int]]) -> Node:
        node = Node(
            open_address(self._seeds[0] | {"host": address[0], "port": address[1]}),
            self._naming,
            self._settings.budget,
            self._lost,
            joined=False,
            probe_key=probe_key(self._naming.prefix, spans),
            epochs=self._epochs,
        )
        node.clock = self._clock
        return node

    def _lost(self, cause: str) -> None:
        self._changed(cause)
        if cause:
            self._stale.set()


def open_address(options: dict[str, Any]) -> Opener:
    """Connect to one server of the cluster."""

    async def opener() -> Connection:
        return await connect(options)

    return opener


def probe_key(prefix: str, spans: Sequence[tuple[int, int]]) -> str:
    """Find a key of ours that lives in one of the spans of slots."""
    number = 0
    while True:
        key = f"{prefix}:{{probe{number}}}"
        slot = key_slot(key.encode())
        if any(first <= slot <= last for first, last in spans):
            return key
        number += 1
