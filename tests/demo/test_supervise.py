"""Programs are started in order, waited for, restarted, and ended without an orphan."""

import asyncio
import os
import signal
import socket
import sys

import pytest

from demo.supervise import Program, StartFailed, Supervisor, require_ports
from tests.demo.build import free_port, until

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
PARENT = """
import asyncio, sys
from pathlib import Path
from demo.supervise import Program, Supervisor

async def ready():
    return True

async def main():
    async with Supervisor(Path(sys.argv[1])) as supervisor:
        await supervisor.start(Program("child", [sys.executable, "-c", "import time; time.sleep(600)"], ready))
        print(supervisor.process("child").pid, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


async def at_once():
    return True


async def never():
    return False


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_leaving_the_block_ends_every_program(tmp_path):
    async with Supervisor(tmp_path) as supervisor:
        for name in ("first", "second"):
            await supervisor.start(Program(name, SLEEP, at_once))
        pids = [supervisor.process(name).pid for name in ("first", "second")]
        assert all(map(is_alive, pids))
    assert not any(map(is_alive, pids))


async def test_a_program_that_ends_early_is_shown_with_the_end_of_its_log(tmp_path):
    async with Supervisor(tmp_path) as supervisor:
        command = [sys.executable, "-c", "print('no such file'); raise SystemExit(3)"]
        with pytest.raises(StartFailed, match=r"(?s)broken ended with status 3.*no such file"):
            await supervisor.start(Program("broken", command, never))


async def test_a_program_that_is_killed_comes_back_under_another_pid(tmp_path):
    async with Supervisor(tmp_path) as supervisor:
        await supervisor.start(Program("phoenix", SLEEP, at_once))
        before = supervisor.process("phoenix").pid
        os.kill(before, signal.SIGKILL)
        await until(lambda: supervisor.process("phoenix").pid != before)
        assert is_alive(supervisor.process("phoenix").pid)


async def test_a_program_that_was_stopped_stays_away(tmp_path):
    async with Supervisor(tmp_path) as supervisor:
        await supervisor.start(Program("done", SLEEP, at_once))
        assert await supervisor.stop("done") == -signal.SIGTERM
        assert await supervisor.stop("done") is None


async def test_a_program_that_ignores_sigterm_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("demo.supervise.STOP_LIMIT", 0.2)
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    log = tmp_path / "stubborn.log"

    async def ready():
        return log.exists() and "up" in log.read_text()

    async with Supervisor(tmp_path) as supervisor:
        await supervisor.start(Program("stubborn", [sys.executable, "-c", stubborn], ready))
        assert await supervisor.stop("stubborn") == -signal.SIGKILL


async def test_no_orphan_is_left_when_the_supervisor_itself_is_killed(tmp_path):
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    child = int(await parent.stdout.readline())
    assert is_alive(child)
    parent.kill()
    await parent.wait()
    await until(lambda: not is_alive(child))


def test_a_taken_port_is_named_with_the_variable_that_moves_it():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(StartFailed, match=f"port {port} is taken.*set LEDGER_PORT"):
            require_ports({"LEDGER_PORT": port, "IDP_PORT": free_port()})


async def test_a_program_stopped_while_it_is_being_restarted_leaves_no_orphan(tmp_path, monkeypatch):
    monkeypatch.setattr("demo.supervise.BACKOFF", (0.0, 0.0))
    async with Supervisor(tmp_path) as supervisor:
        await supervisor.start(Program("phoenix", SLEEP, at_once))
        spawned, spawn = [], supervisor._spawn

        async def spawn_slowly(program):
            await asyncio.sleep(0)
            await spawn(program)
            spawned.append(supervisor.process("phoenix").pid)
            await asyncio.sleep(0.05)

        monkeypatch.setattr(supervisor, "_spawn", spawn_slowly)
        os.kill(supervisor.process("phoenix").pid, signal.SIGKILL)
        await until(supervisor._restarting.locked)
        await supervisor.stop("phoenix")
    assert len(spawned) == 1
    assert not is_alive(spawned[0])
