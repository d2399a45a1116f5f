"""The parent's hold on its workers: starts them as fresh processes, replaces those that die, ends them all.

No gRPC here: a process that has used gRPC must not start others (bug report G-01), and this one does little else.
"""

import asyncio
import contextlib
import socket
import sys
from dataclasses import dataclass, field
from typing import Any

from model.instant import SECOND
from model.snapshot import Snapshot
from ratelimit.rules import Rules
from sidecar import clock
from sidecar.link import Link, LinkClosed
from sidecar.logs import Journal
from sidecar.merge import Merged
from sidecar.pool import Pool
from sidecar.settings import Settings, worker_address

PATIENCE = 20.0
"""Seconds for a worker to be imported and bound, or to take up a policy with issuers that are slow."""
GLANCE = 0.5
"""Seconds for a worker to answer a question about itself; one that needs longer is not well."""
REPORT_INTERVAL = 1.0
NOTICED = 2.0
"""Seconds for Envoy's health checks to see that a successor serves, before the next worker goes."""


class WorkersDying(Exception):
    """A worker has died early too many times in a row."""


class StartRefused(Exception):
    """A worker cannot begin with what is on disk; the text says why."""


@dataclass(frozen=True, slots=True)
class Stamina:
    """How deaths are taken, in seconds: pauses double from `first` to `last` with each death within `settled` of birth.

    After `most` such deaths of one worker in a row the parent gives up, so that somebody above it sees.
    """

    first: float = 0.1
    last: float = 5.0
    settled: float = 10.0
    most: int = 6


@dataclass(slots=True)
class Seat:
    """The place of one worker: its index and address stay when its process is replaced."""

    index: int
    address: str
    process: asyncio.subprocess.Process | None = None
    link: Link | None = None
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    seated: bool = False
    early: int = 0
    deaths: int = 0
    report: dict[str, Any] = field(default_factory=dict)


class Supervisor:
    """A fixed number of workers behind the port of `follow.Target`: what is applied is applied to all of them."""

    def __init__(self, settings: Settings, journal: Journal, stamina: Stamina = Stamina()) -> None:
        self.seats: list[Seat] = []
        self.merged = Merged()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.stopping = False
        self._settings = settings
        self._journal = journal
        self._stamina = stamina
        self._pool = Pool(clock.now)
        self._snapshot: Snapshot | None = None
        self._rules: Rules | None = None
        self._spare: list[tuple[asyncio.subprocess.Process, socket.socket]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        # a worker that is being seated while a policy is taken up gets either the old one before, or the new one after
        self._turn = asyncio.Lock()

    async def prepare(self, count: int) -> None:
        """Start processes that import while the parent loads; `open` uses them first."""
        for _ in range(count):
            self._spare.append(await _spawn())

    async def open(self, address: str, workers: int) -> None:
        """Seat all workers and wait until each is bound. Raises AddressUnusable, StartRefused, WorkersDying."""
        self.seats = [Seat(index, worker_address(address, index, workers)) for index in range(workers)]
        try:
            await asyncio.gather(*(self._seat(seat) for seat in self.seats))
        except LinkClosed as error:
            raise WorkersDying("a worker ended before it began") from error
        except ValueError as error:
            raise StartRefused(str(error)) from error
        for seat in self.seats:
            self._start(self._keep(seat), f"worker {seat.index}")
        self._start(self._collect_reports(), "reports")

    async def apply(self, snapshot: Snapshot) -> str | None:
        """Have all workers take up a snapshot; where one refuses, all go back to the one before."""
        async with self._turn:
            faults = await self._tell("apply", snapshot)
            if faults:
                if self._snapshot is not None:
                    await self._tell("apply", self._snapshot)
                return faults[0]
            self._snapshot = snapshot
            self.merged.know(snapshot.routes)
            return None

    async def apply_rules(self, rules: Rules) -> None:
        """Have all workers take up the rate limit service's own rules."""
        async with self._turn:
            self._rules = rules
            await self._tell("rules", rules)

    async def look(self) -> list[Seat]:
        """Ask every worker for a report now; that of one that does not answer is empty."""
        await asyncio.gather(*(self._ask_report(seat) for seat in self.seats))
        return self.seats

    async def recycle(self) -> None:
        """Replace the workers one by one, each drained before and ready again before the next goes."""
        for seat in self.seats:
            process = seat.process
            if seat.link is None or process is None or self.stopping:
                continue
            seat.begun.clear()
            with contextlib.suppress(LinkClosed, TimeoutError):
                await seat.link.ask("stop")
            await seat.begun.wait()  # the seat's own task notices the end and brings the successor
            await asyncio.sleep(NOTICED)

    async def close(self) -> None:
        """Drain all workers at once; what is not gone when drain and grace are over is killed."""
        self.stopping = True
        processes = [seat.process for seat in self.seats if seat.process] + [process for process, _ in self._spare]
        await self._tell("stop", None, GLANCE, seated=False)
        for _, end in self._spare:
            end.close()
        limit = (self._settings.drain + self._settings.grace) / SECOND + 1.0
        await asyncio.gather(*(_end(process, limit) for process in processes))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _seat(self, seat: Seat) -> None:
        """Put a process into a seat, with all that its predecessor had."""
        process, end = self._spare.pop() if self._spare else await _spawn()
        link = Link(end, self._pool.answer)
        seat.process, seat.link, seat.report = process, link, {}
        await link.open()
        self._start(link.serve(), f"link {seat.index}")
        await link.ask("begin", (self._settings, seat.index, seat.address, len(self.seats)), PATIENCE)
        async with self._turn:
            if self._rules is not None:
                await link.ask("rules", self._rules, PATIENCE)
            if self._snapshot is not None and (fault := await link.ask("apply", self._snapshot, PATIENCE)) is not None:
                self._journal.event("error", "worker without policy", worker=seat.index, why=fault)
            seat.seated = True
            seat.begun.set()

    async def _keep(self, seat: Seat) -> None:
        """Replace the worker of a seat whenever it is gone, until the parent stops or gives up."""
        loop = asyncio.get_running_loop()
        while seat.process is not None:
            born = loop.time()
            code = await seat.process.wait()
            self._bury(seat)
            if self.stopping:
                return
            seat.deaths += 1
            seat.early = 0 if code == 0 or loop.time() - born >= self._stamina.settled else seat.early + 1
            self._journal.event("info" if code == 0 else "error", "worker gone", worker=seat.index, code=code)
            if seat.early >= self._stamina.most:
                if not self.failed.done():
                    self.failed.set_exception(WorkersDying(f"worker {seat.index} died {seat.early} times in a row"))
                return
            if seat.early:
                await asyncio.sleep(min(self._stamina.last, self._stamina.first * 2 ** (seat.early - 1)))
            await self._reseat(seat)

    async def _reseat(self, seat: Seat) -> None:
        if self.stopping:
            return  # `close` counts the processes once
        try:
            await self._seat(seat)
        except Exception as error:  # noqa: BLE001 - whatever kept it from beginning counts as one more early death
            self._journal.event("error", "worker not begun", worker=seat.index, why=str(error) or type(error).__name__)
            if seat.process is not None and seat.process.returncode is None:
                seat.process.kill()

    def _bury(self, seat: Seat) -> None:
        self.merged.retire(seat.index)
        seat.begun.clear()
        seat.seated = False
        seat.report = {}
        if seat.link is not None:
            seat.link.close()
            seat.link = None

    async def _tell(self, kind: str, value: Any, patience: float = PATIENCE, *, seated: bool = True) -> list[str]:
        """Tell all workers the same, by default those that are seated; what they answered beyond None.

        One that is gone, or is being seated, learns it when it is seated.
        """
        links = [seat.link for seat in self.seats if seat.link is not None and (seat.seated or not seated)]
        answers = await asyncio.gather(*(link.ask(kind, value, patience) for link in links), return_exceptions=True)
        return [str(answer) for answer in answers if answer is not None and not isinstance(answer, LinkClosed)]

    async def _ask_report(self, seat: Seat) -> None:
        if seat.link is None:
            return
        try:
            seat.report = await seat.link.ask("report", patience=GLANCE)
            self.merged.reports[seat.index] = seat.report["metrics"]
        except (LinkClosed, TimeoutError):
            seat.report = {}

    async def _collect_reports(self) -> None:
        """Keep the counts of a worker that may die at any time at most a second old."""
        while True:
            await asyncio.sleep(REPORT_INTERVAL)
            await self.look()

    def _start(self, work: Any, name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _spawn() -> tuple[asyncio.subprocess.Process, socket.socket]:
    ours, theirs = socket.socketpair()
    with theirs:
        number = theirs.fileno()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "sidecar.member", str(number), pass_fds=[number]
        )
    return process, ours


async def _end(process: asyncio.subprocess.Process, limit: float) -> None:
    try:
        async with asyncio.timeout(limit):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
