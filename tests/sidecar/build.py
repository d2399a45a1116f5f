"""Builders of this room: a server on a free port, a channel to it, a journal that keeps its lines."""

import asyncio
import contextlib
import json
import shutil
import tempfile
from pathlib import Path

import grpc.aio

from pb import ext_authz_pb2
from sidecar.logs import Journal
from sidecar.loop import LoopServer
from sidecar.server import Options

SECOND = 1_000_000_000


class Lines(list):
    """The lines that a journal wrote, parsed where they are JSON."""

    def write(self, line):
        self.append(line)

    def parsed(self):
        return [json.loads(line) for line in self]


def journal(**options):
    """A journal and the lines it has written once it is closed."""
    lines = Lines()
    return Journal(lines.write, **options), lines


@contextlib.asynccontextmanager
async def serving(methods, *, opener=LoopServer, address="127.0.0.1:0", options=None):
    """A server over `methods`; gives its address."""
    server = opener(methods, address, options or Options())
    address = await server.start()
    try:
        yield address
    finally:
        await server.stop(0)


@contextlib.asynccontextmanager
async def channel(address, options=()):
    async with grpc.aio.insecure_channel(address, options=list(options)) as made:
        yield made


async def call(made, path, data=b"", **options):
    """One unary call of bytes."""
    return await made.unary_unary(path)(data, **options)


@contextlib.contextmanager
def short_folder():
    """A folder whose path leaves room for a socket's name."""
    path = Path(tempfile.mkdtemp(prefix="wg", dir="/tmp"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


async def until(condition, seconds=10.0):
    """Wait for a condition that another task brings about."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in another process or library
            await asyncio.sleep(0.005)


GATEWAY = """\
gateway: small
sidecar: {{address: "unix:{socket}"}}
planes:
  public: {{listen: "127.0.0.1:{listen}", credentials: [none], anonymous_tier: guests}}
tiers:
  guests: {{limits: {{guests: {{rate: {rate}, per: [address]}}}}}}
upstreams:
  web: {{endpoints: ["127.0.0.1:{upstream}"]}}
routes:
{routes}
"""
ROUTE = "  - {{id: {id}, plane: public, match: {{path: /{id}, methods: [GET]}}, upstream: web}}"


def gateway(folder, *, routes=("home",), rate="60/min", tail="", listen=8080, upstream=9000):
    """Write a small gateway document into a folder, in one rename; give its path."""
    text = GATEWAY.format(
        socket=folder / "w.sock",
        rate=rate,
        routes="\n".join(ROUTE.format(id=route) for route in routes),
        listen=listen,
        upstream=upstream,
    )
    path, fresh = folder / "gateway.yaml", folder / ".gateway.yaml"
    fresh.write_text(text + tail)
    fresh.replace(path)
    return path


def check_bytes(route="home", address="192.0.2.7", headers=()):
    """A CheckRequest as Envoy sends it."""
    request = ext_authz_pb2.CheckRequest()
    attributes = request.attributes
    attributes.source.address.socket_address.address = address
    attributes.request.http.method = "GET"
    attributes.request.http.path = f"/{route}"
    attributes.context_extensions["wardgate.route"] = route
    for name, value in headers:
        attributes.request.http.header_map.headers.add(key=name, raw_value=value.encode())
    return request.SerializeToString()


def status_of(answer):
    """The HTTP status of a CheckResponse: 200 for an allowance."""
    response = ext_authz_pb2.CheckResponse.FromString(answer)
    return response.denied_response.status.code if response.HasField("denied_response") else 200
