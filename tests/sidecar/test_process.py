"""The sidecar as processes: starting, stopping, dying, and what is left of it afterwards."""

import ast
import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

import aiohttp
import pytest
from grpc_health.v1.health_pb2 import HealthCheckResponse

from authz.service import METHOD as CHECK
from tests.sidecar.build import call, channel, check_bytes, gateway, short_folder, status_of, until

ROOT = Path(__file__).resolve().parents[2]
HEALTH = "/grpc.health.v1.Health/Check"


class Served:
    """A running `wardgate serve`, its admin side, and the lines that it wrote."""

    def __init__(self, folder, process, admin):
        self.folder, self.process, self.admin = folder, process, admin

    def address(self, worker=None):
        return f"unix:{self.folder}/w.sock" + ("" if worker is None else f".{worker}")

    async def get(self, path):
        async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{self.admin}{path}") as answer:
            return answer.status, await answer.text()

    async def json(self, path):
        async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{self.admin}{path}") as answer:
            return await answer.json()

    async def ready(self):
        with contextlib.suppress(aiohttp.ClientError):
            return (await self.get("/readyz"))[0] == 200
        return False

    async def wait_ready(self, seconds=40.0):
        async with asyncio.timeout(seconds):
            while not await self.ready():
                assert self.process.returncode is None, self.log()
                await asyncio.sleep(0.05)

    async def pids(self):
        return [worker["pid"] for worker in (await self.json("/snapshot"))["workers"]]

    async def end(self, number=signal.SIGTERM):
        """Send a signal; exit code and seconds until the exit."""
        before = time.monotonic()
        self.process.send_signal(number)
        return await self.process.wait(), time.monotonic() - before

    def log(self):
        return (self.folder / "log").read_text()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.asynccontextmanager
async def served(*options, folder=None, ready=True):
    """`wardgate serve` on a small document in a folder."""
    with contextlib.ExitStack() as stack:
        folder = folder or stack.enter_context(short_folder())
        path = folder / "gateway.yaml"
        if not path.exists():
            gateway(folder, rate="60000/min")
        admin = free_port()
        command = ["-m", "sidecar", "serve", "--document", str(path), "--admin", f"127.0.0.1:{admin}", *options]
        log = stack.enter_context((folder / "log").open("w"))
        process = await asyncio.create_subprocess_exec(sys.executable, *command, cwd=ROOT, stdout=log, stderr=log)
        running = Served(folder, process, admin)
        try:
            if ready:
                await running.wait_ready()
            yield running
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def threads_of_grpc(pid):
    names = {path.read_text().strip() for path in Path(f"/proc/{pid}/task").glob("*/comm")}
    return {name for name in names if name.startswith(("grpc", "event_engine", "timer_man", "iomgr"))}


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.parametrize("server", ["zttp", "grpcio"])
async def test_a_stop_under_load_loses_no_call_and_ends_with_zero(server):
    """G-05, O-03: NOT_SERVING and 503 at once, liveness fine, calls in the drain window answered, exit 0 in time."""
    options = ("--server", server, "--drain", "700ms", "--grace", "2s")
    async with served(*options) as sidecar, channel(sidecar.address()) as made:
        answers = []

        async def ask():
            while True:
                answers.append(status_of(await call(made, CHECK, check_bytes())))

        assert HealthCheckResponse.FromString(await call(made, HEALTH)).status == HealthCheckResponse.SERVING
        asking = [asyncio.create_task(ask()) for _ in range(4)]
        await until(lambda: len(answers) > 50)
        (worker,) = await sidecar.pids()
        ending = asyncio.create_task(sidecar.end())
        await until(lambda: '"draining"' in sidecar.log())
        assert HealthCheckResponse.FromString(await call(made, HEALTH)).status == HealthCheckResponse.NOT_SERVING
        assert await sidecar.get("/readyz") == (503, "draining\n")
        assert (await sidecar.get("/healthz"))[0] == 200
        before = len(answers)
        await until(lambda: len(answers) > before + 20)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        assert set(answers) == {200}
        code, took = await ending
        assert (code, took < 6) == (0, True)
        assert not alive(worker)
        assert not (sidecar.folder / "w.sock").exists()


async def test_workers_die_and_hang_and_the_parent_copes():
    """O-03, P-01: a killed worker is replaced at its address, its counts stay; a hanging one holds up no stop."""
    async with served("--workers", "2", "--drain", "0ms", "--grace", "500ms") as sidecar:
        before = await sidecar.pids()
        for worker in (0, 1):
            async with channel(sidecar.address(worker)) as made:
                assert [status_of(await call(made, CHECK, check_bytes())) for _ in range(5)] == [200] * 5
        assert 'service="authz",status="200"} 10.0' in (await sidecar.get("/metrics"))[1]
        os.kill(before[0], signal.SIGKILL)
        await until(lambda: not alive(before[0]))
        await sidecar.wait_ready()
        after = await sidecar.pids()
        assert (after[0] != before[0], after[1] == before[1]) == (True, True)
        async with channel(sidecar.address(0)) as made:
            assert status_of(await call(made, CHECK, check_bytes())) == 200
        page = (await sidecar.get("/metrics"))[1]
        assert 'service="authz",status="200"} 11.0' in page
        assert 'wardgate_worker_deaths{worker="0"} 1.0' in page
        os.kill(after[1], signal.SIGSTOP)
        assert (await sidecar.get("/readyz")) == (503, "worker 1: no answer\n")
        code, took = await sidecar.end(signal.SIGINT)
        assert (code, took < 8) == (0, True)
        assert not any(map(alive, after))


def mapped(pid):
    """The key tables that a process has mapped."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {Path(line.split()[-1]).name for line in lines if line.endswith(".table")}


async def test_workers_hold_a_large_key_file_once_between_them():
    """Both map the same table, and so does the successor of one that died; after an edit both map the new one."""
    with short_folder() as folder:
        gateway(folder, rate="60000/min", tail="api_keys: [keys.jsonl]\n")
        record = {"sha256": "0" * 64, "client_id": "c"}
        lines = [json.dumps({"id": f"k{number}", **record}) + "\n" for number in range(12_000)]
        (folder / "keys.jsonl").write_text("".join(lines))
        options = ("--workers", "2", "--state", str(folder / "state"), "--poll", "50ms", "--drain", "0ms")
        async with served(*options, folder=folder) as sidecar:
            first, second = [mapped(pid) for pid in await sidecar.pids()]
            assert len(first) == 1
            assert first == second
            dying = (await sidecar.pids())[0]
            os.kill(dying, signal.SIGKILL)
            await until(lambda: not alive(dying))
            await sidecar.wait_ready()
            assert mapped((await sidecar.pids())[0]) == first
            (folder / "new").write_text("".join(lines[1:]))
            (folder / "new").replace(folder / "keys.jsonl")
            pids = await sidecar.pids()
            await until(lambda: len(set.union(*map(mapped, pids)) - first) == 1 and mapped(pids[0]) == mapped(pids[1]))


async def test_one_after_the_other_is_recycled_at_a_hangup():
    async with served("--workers", "2", "--drain", "0ms") as sidecar:
        before = await sidecar.pids()
        sidecar.process.send_signal(signal.SIGHUP)
        async with asyncio.timeout(60):
            while set(await sidecar.pids()) & set(before) or not await sidecar.ready():  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)
        assert (await sidecar.end())[0] == 0


async def test_a_killed_parent_takes_its_workers_along_and_a_successor_starts_on_the_same_address_with_its_keys():
    """O-03, P-02: no orphan holds the socket; counts begin at 0; the context keys are those of before."""
    with short_folder() as folder:
        options = ("--state", str(folder / "state"))
        async with served(*options, folder=folder) as first:
            keys, (worker,) = await first.json("/.well-known/jwks.json"), await first.pids()
            async with channel(first.address()) as made:
                assert status_of(await call(made, CHECK, check_bytes())) == 200
            await first.end(signal.SIGKILL)
        async with served(*options, folder=folder) as second:
            assert not alive(worker)
            assert await second.json("/.well-known/jwks.json") == keys
            assert "wardgate_decisions_total{" not in (await second.get("/metrics"))[1]
            assert (folder / "state" / "context-keys.json").stat().st_mode & 0o777 == 0o600


async def test_a_bad_first_document_ends_it_with_two_and_all_faults():
    with short_folder() as folder:
        gateway(folder, tail="foo: 1\nbar: 2\n")
        async with served(folder=folder, ready=False) as sidecar:
            assert await sidecar.process.wait() == 2
            assert [line.split(":")[1] for line in sidecar.log().splitlines() if "unknown key" in line] == ["11", "12"]
            assert "Traceback" not in sidecar.log()


async def test_an_address_in_use_ends_it_with_two_and_says_so():
    with short_folder() as folder, socket.socket(socket.AF_UNIX) as other:
        other.bind(str(folder / "w.sock"))
        other.listen()
        async with served(folder=folder, ready=False) as sidecar:
            assert await sidecar.process.wait() == 2
            assert "another process is listening" in sidecar.log()
            assert "Traceback" not in sidecar.log()


async def test_waiting_for_a_first_document_refuses_meanwhile():
    """F-09: start with no document, then a bad one, then a good one."""
    with short_folder() as folder:
        good = gateway(folder, rate="60000/min").read_text()
        (folder / "gateway.yaml").write_text("gateway: [")
        listen = f"unix:{folder}/w.sock"
        async with served("--wait", "--listen", listen, folder=folder, ready=False) as sidecar:
            async with channel(listen) as made:
                await until((folder / "w.sock").exists, 40)
                assert status_of(await call(made, CHECK, check_bytes(), wait_for_ready=True)) == 503
                assert await sidecar.get("/readyz") == (503, "worker 0: no policy yet\n")
                assert "gateway.yaml:1" in (await sidecar.json("/snapshot"))["last_error"]
                (folder / "gateway.yaml").write_text(good)
                await sidecar.wait_ready()
                assert status_of(await call(made, CHECK, check_bytes())) == 200
            assert (await sidecar.end())[0] == 0


async def test_the_parent_has_no_grpc_threads():
    """G-01: the types of Envoy's API import the gRPC library; the process that starts others never uses it."""
    with short_folder() as folder:
        async with served("--server", "grpcio", "--envoy-dir", str(folder / "envoy"), folder=folder) as sidecar:
            (worker,) = await sidecar.pids()
            assert not threads_of_grpc(sidecar.process.pid)
            assert threads_of_grpc(worker)


STARTERS = {"sidecar/supervisor.py", "policy/validate.py"}


@pytest.mark.parametrize("room", ["model", "authz", "ratelimit", "extproc", "sidecar"])
def test_nothing_that_serves_starts_processes(room):
    """G-01: any handler path that uses subprocess, multiprocessing or fork is refused."""
    for path in (ROOT / room).rglob("*.py"):
        if str(path.relative_to(ROOT)) in STARTERS:
            continue
        tree = ast.parse(path.read_text())
        names = {
            alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        }
        names |= {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        calls = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not names & {"subprocess", "multiprocessing", "pty"}, path
        assert not calls & {
            "fork",
            "forkpty",
            "system",
            "popen",
            "create_subprocess_exec",
            "create_subprocess_shell",
        }, path
