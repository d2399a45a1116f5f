"""A whole demo for end-to-end tests: real Envoy, the sidecar, backends, on free ports, in a thread of its own.

The thread keeps one event loop for as long as the demo runs, so that it outlives the loops of single tests.
"""

import asyncio
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from demo.launch import launch_demo
from demo.settings import EXAMPLE, PORTS, read_settings
from demo.supervise import Supervisor
from demo.world import World
from tests.demo.build import free_ports

START_LIMIT = 60


class Demo:
    """One running demo. `environment` moves its settings; `extra` goes to its programs alone."""

    supervisor: Supervisor

    def __init__(self, environment: Mapping[str, str] | None = None, extra: Mapping[str, str] | None = None) -> None:
        # a short path, since that of a Unix socket may have 107 bytes
        self.folder = Path(tempfile.mkdtemp(prefix="wg-", dir="/tmp"))
        self.document = self.folder / "example" / "gateway.yaml"
        shutil.copytree(EXAMPLE, self.document.parent)
        ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
        place = {"WARDGATE_RUN": str(self.folder / "run"), "WARDGATE_DOCUMENT": str(self.document)}
        self.settings = read_settings({**ports, **place, **(environment or {})})
        self.world = World(self.settings)
        self._extra = extra or {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="demo", daemon=True)
        self._stack = AsyncExitStack()

    def start(self) -> "Demo":
        self._thread.start()
        self.supervisor = self.run(self._stack.enter_async_context(launch_demo(self.settings, self._extra)))
        return self

    def stop(self) -> None:
        try:
            self.run(self._stack.aclose())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, work: Coroutine):
        """Run a coroutine in the demo's own loop and wait for what it gives."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_LIMIT)

    def pid(self, name: str) -> int:
        return self.supervisor.process(name).pid

    def signal(self, name: str, number: int = signal.SIGKILL) -> int:
        """Send a signal to a program and, but for a polite SIGTERM, to its workers; the supervisor restarts it."""
        pid = self.pid(name)
        if number == signal.SIGTERM:
            os.kill(pid, number)
        else:
            os.killpg(pid, number)
        return pid

    def edit(self, *changes: tuple[str, str]) -> None:
        """Edit the gateway document in place, as an editor does: a new file, renamed over the old one."""
        text = self.document.read_text()
        for old, new in changes:
            assert old in text, f"{old!r} is not in the document"
            text = text.replace(old, new)
        fresh = self.document.with_suffix(".new")
        fresh.write_text(text)
        fresh.rename(self.document)

    def log(self, name: str) -> str:
        return (self.settings.log / f"{name}.log").read_text()
