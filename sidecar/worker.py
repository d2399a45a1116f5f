"""One serving worker: its server, its services, and the order in which they come and go."""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence

from model.instant import MILLISECOND, SECOND, Duration
from model.snapshot import Snapshot
from ratelimit.rules import Rules
from sidecar import clock
from sidecar.build import LIMITING, SERVICES, Sidecar
from sidecar.garbage import settle_garbage
from sidecar.health import Health
from sidecar.keys import KeysUnusable, RingFile
from sidecar.logs import Journal
from sidecar.loop import LoopServer
from sidecar.metrics import Gauge, Metrics
from sidecar.pool import ALONE, Company
from sidecar.pressure import Pressure
from sidecar.question import RateQuestion
from sidecar.record import Recorder
from sidecar.server import Method, Opener, Options, Server, log, pick_server
from sidecar.settings import Settings
from sidecar.sources import Place, Sources


def open_grpcio(methods: Sequence[Method], address: str, options: Options) -> Server:
    """Make a server on grpc.aio, which is loaded for whoever asks for it only."""
    from sidecar.grpcio import GrpcioServer  # noqa: PLC0415 - a start without it is quicker

    return GrpcioServer(methods, address, options)


SERVERS: dict[str, Opener] = {"zttp": LoopServer, "grpcio": open_grpcio}

RING_INTERVAL: Duration = 15 * SECOND
"""How often the context keys are looked at; far below the shortest overlap of a rotation."""


class Worker:
    """The life of one worker: `start`, then `apply` for each snapshot, then `stop`.

    From `start` on calls are answered: checks are refused with 503 (NOT_READY) until the first snapshot is applied.
    """

    def __init__(self, settings: Settings, journal: Journal, index: int = 0, company: Company = ALONE) -> None:
        self.metrics = Metrics(self._gauges, self._counters)
        self._settings = settings
        self._journal = journal
        self._index = index
        self._health = Health(SERVICES)
        recorder = Recorder(self.metrics, journal)
        instance = f"{socket.gethostname()}:{os.getpid()}:{index}"
        self._sources = Sources(Place(settings.state, instance, index == 0, settings.poll), recorder, clock.now)
        self._sidecar = Sidecar(self._sources, RingFile(settings.state), recorder, self.metrics, clock.now, company)
        self._pressure = Pressure(self._sidecar.press)
        self._server: Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._turn = asyncio.Lock()  # policies are taken up in the order in which they came, however long each takes

    async def start(self, listen: str) -> str:
        """Open the server; the address in use. Raises AddressUnusable, or ValueError for what is broken on disk."""
        await self._sources.start()
        if (rates := self._settings.rates) is not None:
            await self._sidecar.run_rates(rates)
        methods = [*self._sidecar.methods(), *self._health.methods()]
        name = pick_server(self._settings.server, listen)
        server = SERVERS[name](methods, listen, Options(socket_mode=self._settings.socket_mode))
        address = await server.start()
        self._server = server
        self._journal.event("info", "listening", address=address, server=name, worker=self._index)
        self._tasks = [
            asyncio.create_task(self._pressure.watch(), name="pressure"),
            asyncio.create_task(_repeat(RING_INTERVAL, self._rotate), name="rotate"),
        ]
        return address

    async def apply(self, snapshot: Snapshot) -> str | None:
        """Take up a snapshot; None, or why it cannot be used, all being as before then."""
        before = clock.elapsed()
        try:
            async with self._turn:
                await self._sidecar.apply(snapshot)
        except (ValueError, KeyError, KeysUnusable) as error:
            return f"the policy cannot be used: {type(error).__name__}: {error}"
        if not self._health.serving:
            settle_garbage()
        self._health.serve(SERVICES)
        self._journal.event(
            "info",
            "policy in force",
            version=snapshot.version,
            routes=len(snapshot.routes),
            worker=self._index,
            took_ms=(clock.elapsed() - before) // MILLISECOND,
        )
        return None

    async def apply_rules(self, rules: Rules) -> None:
        """Take up the rate limit service's own rules."""
        self._sidecar.apply_rules(rules)
        if self._settings.document is None:
            self._health.serve((LIMITING,))

    async def stop(self, drain: Duration = 0) -> None:
        """Say NOT_SERVING at once, answer new calls for the drain time, let those in flight finish, and close."""
        self._health.drain()
        self._journal.event("info", "draining", worker=self._index)
        await asyncio.sleep(drain / SECOND)
        self._health.close()
        self._sidecar.part()
        if self._server is not None:
            await self._server.stop(self._settings.grace)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._sidecar.close()
        self._journal.event("info", "stopped", worker=self._index)

    def ready(self) -> str | None:
        """Give None when ready, else why not."""
        if self._health.draining:
            return "draining"
        missing = "no rules yet" if self._settings.document is None else "no policy yet"
        return None if self._health.serving else missing

    def jwks(self) -> str:
        """Write the caller context's public keys."""
        return self._sidecar.jwks()

    def snapshot(self) -> dict[str, object]:
        """Describe the policy in force."""
        snapshot = self._sidecar.snapshot
        return {
            "gateway": snapshot.gateway if snapshot is not None else None,
            "version": snapshot.version if snapshot is not None else None,
            "loaded_at": self._sidecar.loaded / SECOND,
        }

    async def explain(self, question: Mapping[str, str]) -> dict[str, object]:
        """Say which limits a caller meets on a route and what is left of them. Raises ValueError."""
        return await self._sidecar.explain(question)

    async def explain_rates(self, question: RateQuestion) -> dict[str, object]:
        """Say which rules a question to the rate limit service meets and what is left. Raises ValueError."""
        return await self._sidecar.explain_rates(question)

    def _rotate(self) -> None:
        try:
            self._sidecar.rotate()
        except KeysUnusable as error:
            self._journal.event("error", "context keys not rotated", why=str(error))

    def _counters(self) -> Iterator[Gauge]:
        yield from self._sidecar.counters()

    def _gauges(self) -> Iterator[Gauge]:
        yield from self._sidecar.gauges()
        yield "ready", "1 when new calls are wanted.", {}, float(self._health.serving)
        yield "saturation", "0 idle, 1 no room.", {}, self._pressure.saturation
        dropped = float(self._journal.dropped)
        yield "log_lines_dropped", "Lines beyond the log's rate, or too many for its reader.", {}, dropped


async def _repeat(interval: Duration, job: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(interval / SECOND)
        try:
            job()
        except Exception:  # noqa: BLE001 - it is due again, whatever was wrong with it this time
            log.exception("background work failed")
