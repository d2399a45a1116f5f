"""Start processes, wait until each is ready, restart those that die, and end them all: no orphan, however we end.

Children stand in a session of their own, so that Ctrl-C reaches the supervisor alone, which then ends them by pid in
the reverse order of their start. Where the supervisor itself is killed the kernel kills them (PR_SET_PDEATHSIG).
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

PR_SET_PDEATHSIG = 1  # linux/prctl.h
POLL = 0.05  # seconds
START_LIMIT = 30.0
STOP_LIMIT = 5.0
BACKOFF = (0.2, 5.0)  # seconds before the first and at most before any restart
TAIL = 15  # log lines shown when a process fails to start

Ready = Callable[[], Awaitable[bool]]


class StartFailed(Exception):
    """A process ended or did not become ready, or a port is taken; the text says which, and what to do."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run: `ready` is polled until true; `environment` is added to the supervisor's own."""

    name: str
    command: Sequence[str]
    ready: Ready
    environment: Mapping[str, str] = field(default_factory=dict)
    restart: bool = True


class Supervisor:
    """The running programs, in the order of their start. Use it as an async context manager."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._programs: dict[str, Program] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._restarting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        self._log.mkdir(parents=True, exist_ok=True)
        return self

    async def __aexit__(self, *_error: object) -> None:
        for name in reversed(tuple(self._programs)):
            await self.stop(name)

    def process(self, name: str) -> asyncio.subprocess.Process:
        """Give the process that runs under a name at the moment."""
        return self._running[name]

    async def start(self, program: Program) -> None:
        """Start a program and wait until it is ready. Raises StartFailed with the end of its log."""
        self._log_file(program.name).unlink(missing_ok=True)
        self._programs[program.name] = program
        await self._spawn(program)
        await self._await_ready(program)
        self._watches[program.name] = asyncio.create_task(self._watch(program))

    async def stop(self, name: str) -> int | None:
        """End a program: SIGTERM, then SIGKILL after STOP_LIMIT; it is not restarted. Gives its exit status."""
        self._programs.pop(name, None)
        watch = self._watches.pop(name, None)
        if watch is not None:
            async with self._restarting:  # a watch cancelled half-way through a restart would leave an orphan
                watch.cancel()
            await asyncio.wait([watch])
        process = self._running.pop(name, None)
        if process is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            return await asyncio.wait_for(process.wait(), STOP_LIMIT)
        except TimeoutError:
            process.kill()
            return await process.wait()

    async def _spawn(self, program: Program) -> None:
        with self._log_file(program.name).open("ab") as output:
            self._running[program.name] = await asyncio.create_subprocess_exec(
                *program.command,
                env={**os.environ, **program.environment},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with(os.getpid()),  # it calls only prctl, getppid and _exit
            )

    async def _await_ready(self, program: Program) -> None:
        process = self._running[program.name]
        deadline = asyncio.get_running_loop().time() + START_LIMIT
        while not await program.ready():
            if process.returncode is not None:
                raise StartFailed(f"{program.name} ended with status {process.returncode}:\n{self._tail(program.name)}")
            if asyncio.get_running_loop().time() > deadline:
                raise StartFailed(f"{program.name} is not ready after {START_LIMIT:.0f} s:\n{self._tail(program.name)}")
            await asyncio.sleep(POLL)

    async def _watch(self, program: Program) -> None:
        delay, most = BACKOFF
        while program.restart:
            await self._running[program.name].wait()
            await asyncio.sleep(delay)
            delay = min(2 * delay, most)
            async with self._restarting:
                await self._spawn(program)

    def _log_file(self, name: str) -> Path:
        return self._log / f"{name}.log"

    def _tail(self, name: str) -> str:
        lines = self._log_file(name).read_text(errors="replace").splitlines()[-TAIL:]
        return "\n".join(f"    {line}" for line in lines)


def _die_with(parent: int) -> Callable[[], None]:
    """Make what runs in the child between fork and exec. The library is loaded before, since it may not be after."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def prepare() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before prctl took hold
            os._exit(1)

    return prepare


def require_ports(ports: Mapping[str, int]) -> None:
    """Refuse to start where a port is taken. Raises StartFailed naming every such port and the variable to set."""
    taken = [f"port {port} is taken: end what listens there, or set {name}" for name, port in ports.items()]
    taken = [line for line, port in zip(taken, ports.values(), strict=True) if not _is_free(port)]
    if taken:
        raise StartFailed("\n".join(taken))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
