"""A worker as a process of its own, at the end of a line to the parent that loads, watches and counts for it."""

import asyncio
import os
import signal
import socket
import sys
from typing import Any

import uvloop

from model.instant import MILLISECOND
from sidecar.link import Link
from sidecar.logs import Journal, open_journal
from sidecar.merge import write_report
from sidecar.pool import Company, PooledStore
from sidecar.server import AddressUnusable
from sidecar.settings import Settings
from sidecar.worker import Worker

BUDGET = 5 * MILLISECOND
"""The longest that a decision waits for the parent's counters, as for Redis."""
BINDING = 2.0
"""Seconds for which a taken address is tried again: an orphan of a killed parent needs a moment to be gone."""


class Member:
    """Does what the parent asks; the answers are plain values. The first message must be "begin"."""

    def __init__(self) -> None:
        self.link: Link | None = None
        self.stopping = asyncio.Event()
        self.settings: Settings | None = None
        self._journal: Journal | None = None
        self._worker: Worker | None = None

    @property
    def worker(self) -> Worker:
        """The worker. Raises LookupError before it was begun."""
        if self._worker is None:
            raise LookupError("the parent asked before it began the worker")
        return self._worker

    async def answer(self, kind: str, value: Any) -> Any:
        """Answer one message of the parent."""
        match kind:
            case "begin":
                return await self._begin(*value)
            case "apply":
                return await self.worker.apply(value)
            case "rules":
                return await self.worker.apply_rules(value)
            case "report":
                return self._report()
            case "explain":
                return await self.worker.explain(value)
            case "explain rates":
                return await self.worker.explain_rates(value)
            case "stop":
                self.stopping.set()
        return None

    async def close(self, *, orphaned: bool) -> None:
        """Drain and stop; at once where there is no parent any more, so that its successor finds the address free."""
        if self._worker is not None and self.settings is not None and self._journal is not None:
            await self._worker.stop(0 if orphaned else self.settings.drain)
            self._journal.close()

    async def _begin(self, settings: Settings, index: int, address: str, workers: int) -> str:
        self.settings = settings
        self._journal = open_journal(settings.log_level, settings.log_format, settings.log_rate)
        # one worker counts in its own memory, several in that of the parent
        pool = PooledStore(self.link.ask, BUDGET) if workers > 1 and self.link is not None else None
        self._worker = Worker(settings, self._journal, index, Company(workers, pool))
        end = asyncio.get_running_loop().time() + BINDING
        while True:
            try:
                return await self._worker.start(address)
            except AddressUnusable:
                if asyncio.get_running_loop().time() > end:
                    raise
                await asyncio.sleep(0.1)

    def _report(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "ready": self.worker.ready(),
            "snapshot": self.worker.snapshot(),
            "jwks": self.worker.jwks(),
            "metrics": write_report(self.worker.metrics.registry),
        }


async def _live(end: socket.socket) -> None:
    member = Member()
    loop = asyncio.get_running_loop()
    # SIGINT of a terminal goes to the whole group; when to stop is the parent's to say
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    loop.add_signal_handler(signal.SIGTERM, member.stopping.set)
    link = member.link = Link(end, member.answer)
    await link.open()
    serving = asyncio.create_task(link.serve(), name="link")
    stopping = asyncio.create_task(member.stopping.wait(), name="stopping")
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    await member.close(orphaned=serving.done())
    link.close()
    serving.cancel()
    stopping.cancel()


def main() -> None:
    """Live at the end of the line whose file descriptor is the only argument."""
    # a thread that reads a large policy or key file must not keep a decision waiting for the default 5 ms
    sys.setswitchinterval(0.0005)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_live(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    main()
