"""O-03: workers that keep dying end the parent, and none of them is left behind."""

import asyncio
import socket
import sys
from types import SimpleNamespace

import pytest

from sidecar import supervisor as module
from sidecar.link import Link, LinkClosed
from sidecar.server import AddressUnusable
from sidecar.settings import Settings, worker_address
from sidecar.supervisor import Stamina, Supervisor, WorkersDying
from tests.sidecar.build import journal, until

QUICK = Stamina(first=0.001, last=0.01, settled=60.0, most=3)

# Answers the first question and dies at once.
MORTAL = """
import pickle, socket, sys
end = socket.socket(fileno=int(sys.argv[1]))
size = int.from_bytes(end.recv(4, socket.MSG_WAITALL), "big")
kind, number, value = pickle.loads(end.recv(size, socket.MSG_WAITALL))
data = pickle.dumps(("answer", number, value[2]))
end.sendall(len(data).to_bytes(4, "big") + data)
sys.exit(7)
"""

# Writes down what it is asked, and begins once there is a file named "gate".
GATED = """
import os, pickle, socket, sys, time
end = socket.socket(fileno=int(sys.argv[1]))
while head := end.recv(4, socket.MSG_WAITALL):
    kind, number, value = pickle.loads(end.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
    with open("{folder}/asked", "a") as asked:
        print(kind, file=asked)
    while kind == "begin" and not os.path.exists("{folder}/gate"):
        time.sleep(0.01)
    data = pickle.dumps(("answer", number, None))
    end.sendall(len(data).to_bytes(4, "big") + data)
"""


def spawning(code):
    async def spawn():
        ours, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", code, str(number), pass_fds=[number], stderr=asyncio.subprocess.DEVNULL
            )
        return process, ours

    return spawn


async def test_the_parent_gives_up_when_a_worker_dies_again_and_again(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_spawn", spawning(MORTAL))
    written, lines = journal()
    supervisor = Supervisor(Settings(tmp_path / "x", drain=0, grace=0), written, QUICK)
    await supervisor.open("unix:/tmp/unused.sock", 1)
    async with asyncio.timeout(30):
        with pytest.raises(WorkersDying, match="3 times"):
            await supervisor.failed
    await supervisor.close()
    written.close()
    assert [line["code"] for line in lines.parsed() if line["event"] == "worker gone"] == [7, 7, 7]
    assert all(seat.process.returncode is not None for seat in supervisor.seats)


async def test_a_worker_that_cannot_even_begin_is_an_error_of_the_start(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_spawn", spawning("import sys; sys.exit(1)"))
    written, _ = journal()
    supervisor = Supervisor(Settings(tmp_path / "x", drain=0, grace=0), written, QUICK)
    with pytest.raises(WorkersDying):
        await supervisor.open("unix:/tmp/unused.sock", 1)
    await supervisor.close()
    written.close()


async def test_a_policy_is_taken_up_while_a_worker_is_being_seated_and_the_worker_learns_it_then(monkeypatch, tmp_path):
    """A worker that is on its way refuses no edit, and does not end up with the policy before."""
    monkeypatch.setattr(module, "_spawn", spawning(GATED.format(folder=tmp_path)))
    monkeypatch.setattr(module, "REPORT_INTERVAL", 1000.0)
    gate, asked = tmp_path / "gate", tmp_path / "asked"
    gate.touch()
    written, _ = journal()
    supervisor = Supervisor(Settings(tmp_path / "x", drain=0, grace=0), written, QUICK)
    await supervisor.open("unix:/tmp/unused.sock", 1)
    gate.unlink()
    supervisor.seats[0].process.kill()
    await until(lambda: asked.read_text().split() == ["begin", "begin"])
    fault = await asyncio.wait_for(supervisor.apply(SimpleNamespace(routes={})), 5)
    gate.touch()
    await asyncio.wait_for(supervisor.seats[0].begun.wait(), 5)
    supervisor.seats[0].process.kill()
    await supervisor.close()
    written.close()

    assert fault is None
    assert asked.read_text().split()[:3] == ["begin", "begin", "apply"]


def test_each_worker_has_an_address_of_its_own():
    assert [worker_address("unix:/run/w.sock", index, 2) for index in range(2)] == [
        "unix:/run/w.sock.0",
        "unix:/run/w.sock.1",
    ]
    assert [worker_address("127.0.0.1:9000", index, 2) for index in range(2)] == ["127.0.0.1:9000", "127.0.0.1:9001"]
    assert worker_address("127.0.0.1:0", 0, 1) == "127.0.0.1:0"
    with pytest.raises(AddressUnusable):
        worker_address("127.0.0.1:0", 0, 2)


async def test_questions_over_a_link_are_answered_refused_and_cut_off():
    async def answer(kind, value):
        if kind == "raise":
            raise ValueError(value)
        if kind == "wait":
            await asyncio.Event().wait()
        return value

    ends = socket.socketpair()
    links = [Link(end, answer) for end in ends]
    for link in links:
        await link.open()
    serving = [asyncio.create_task(link.serve()) for link in links]
    assert await asyncio.gather(*(links[0].ask("echo", number) for number in range(50))) == list(range(50))
    assert await links[1].ask("echo", "x" * 1_000_000) == "x" * 1_000_000
    with pytest.raises(ValueError, match="wrong"):
        await links[0].ask("raise", "wrong")
    with pytest.raises(TimeoutError):
        await links[0].ask("wait", patience=0.01)
    waiting = asyncio.create_task(links[0].ask("wait"))
    await asyncio.sleep(0)
    links[1].close()
    with pytest.raises(LinkClosed):
        await waiting
    await until(lambda: all(task.done() for task in serving))
    with pytest.raises(LinkClosed):
        await links[0].ask("echo")
