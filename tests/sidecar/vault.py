"""A gateway with every kind of credential, served by workers of this process, and what its callers come with."""

import asyncio
import contextlib
import itertools
import json
import subprocess
import time
from dataclasses import dataclass, field

from aiohttp import web
from redis.asyncio import Redis
from redis.exceptions import RedisError

from authz.apikey import hash_key
from authz.service import METHOD as CHECK
from pb import ext_authz_pb2 as pb
from sidecar.loader import Loader
from sidecar.settings import Settings
from sidecar.worker import Worker
from tests.authz import tokens
from tests.sidecar.build import call, channel, journal, short_folder, status_of

MILLISECOND = 1_000_000
ORIGIN = "https://api.example"
DOCUMENT = """\
gateway: vault
sidecar: {{address: "unix:{folder}/w.sock"}}
planes:
  partner:
    listen: 127.0.0.1:8080
    origin: https://api.example
    credentials: [jwt, api-key, assertion, opaque]
issuers:
  idp: {{issuer: "https://id.example", jwks: "file://{folder}/idp.json", audiences: [api]}}
introspections:
  vault:
    endpoint: http://127.0.0.1:{port}/introspect
    client_id: gate
    secret: file:{folder}/secret
    cache: 50ms
tiers:
  partner: {{}}
consumers:
  client-1: {{tier: partner, assertion: {{jwks: "file://{folder}/partner.json", scopes: [accounts]}}}}
upstreams:
  ledger: {{endpoints: ["127.0.0.1:9000"]}}
api_keys: [keys.jsonl]
revocation: {revocation}
routes:
  - id: accounts
    plane: partner
    match: {{path: /v1/accounts, methods: [GET]}}
    upstream: ledger
    require: {{scopes: [accounts]}}
  - id: payments
    plane: partner
    match: {{path: /v1/payments, methods: [POST]}}
    upstream: ledger
    require: {{scopes: [accounts]}}
  - id: webhook
    plane: partner
    match: {{path: /hooks/psp, methods: [POST]}}
    upstream: ledger
    credentials: [none]
    require: {{networks: [203.0.113.0/24]}}
"""
_numbers = itertools.count()


class Endpoint:
    """An introspection endpoint: says what `members` are, or nothing plain while `away`."""

    def __init__(self):
        self.members = {"active": True, "client_id": "client-1", "scope": "accounts", "jti": "opaque-1"}
        self.away = False
        self.questions = 0
        self.port = 0

    async def answer(self, _request):
        self.questions += 1
        return web.Response(status=500) if self.away else web.json_response(self.members)


@dataclass
class Vault:
    """The folder of one gateway, its endpoint, and the workers that serve it."""

    folder: object
    endpoint: Endpoint
    revocation: str
    workers: list = field(default_factory=list)
    logs: list = field(default_factory=list)

    def write(self):
        text = DOCUMENT.format(folder=self.folder, port=self.endpoint.port, revocation=self.revocation)
        (self.folder / "gateway.yaml").write_text(text)

    def write_keys(self, *names):
        """Write the key file, in one rename: one key of client-1 for each name."""
        fresh = self.folder / "keys.new"
        lines = [
            {"id": n, "sha256": hash_key(f"{n}.s"), "client_id": "client-1", "scopes": ["accounts"]} for n in names
        ]
        fresh.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        fresh.replace(self.folder / "keys.jsonl")

    async def open(self, state=None, index=0):
        """Start a worker on the document as it is; give a caller of it."""
        written, lines = journal()
        name = f"w{len(self.workers)}"
        path = self.folder / "gateway.yaml"
        settings = Settings(path, grace=0, poll=10 * MILLISECOND, state=state)
        worker = Worker(settings, written, index)
        self.workers.append(worker)
        self.logs.append(written)
        await worker.start(f"unix:{self.folder}/{name}.sock")
        fault = await worker.apply(Loader(path, None, environment={}).load().snapshot)
        assert fault is None, fault
        return Caller(worker, f"unix:{self.folder}/{name}.sock", lines)

    async def close(self):
        for worker in self.workers:
            await worker.stop()
        for written in self.logs:
            written.close()
        self.workers, self.logs = [], []


@dataclass
class Caller:
    """Asks one worker, as Envoy does."""

    worker: Worker
    address: str
    lines: list

    async def ask(self, route="accounts", address="192.0.2.7", **fields):
        """The HTTP status and the reason of the answer to a request with these header fields."""
        request = pb.CheckRequest()
        attributes = request.attributes
        attributes.source.address.socket_address.address = address
        attributes.request.http.method = "GET" if route == "accounts" else "POST"
        attributes.request.http.path = "/v1/accounts" if route == "accounts" else "/v1/payments"
        attributes.context_extensions["wardgate.route"] = route
        for name, value in fields.items():
            attributes.request.http.header_map.headers.add(key=name.replace("_", "-"), raw_value=value.encode())
        async with channel(self.address) as made:
            answer = await call(made, CHECK, request.SerializeToString())
        return status_of(answer), pb.CheckResponse.FromString(answer).status.message

    async def token(self, text, **changes):
        return await self.ask(authorization=f"Bearer {text}", **changes)

    async def key(self, name, **changes):
        return await self.ask(x_api_key=f"{name}.s", **changes)

    def gauge(self, name, **labels):
        return self.worker.metrics.registry.get_sample_value(f"wardgate_{name}", labels)


def mint(**claims):
    """A token of the issuer that holds now."""
    now = int(time.time())
    return tokens.token(**{"iat": now - 1, "exp": now + 300, "jti": f"t-{next(_numbers)}", **claims})


def assert_self(**claims):
    """An assertion of client-1 that holds now."""
    now = int(time.time())
    body = {"iss": "client-1", "sub": "client-1", "aud": ORIGIN, "iat": now, "exp": now + 60}
    return tokens.sign({"alg": "EdDSA", "kid": "ed-2"}, {**body, "jti": f"a-{next(_numbers)}", **claims}, "ed-2")


@contextlib.asynccontextmanager
async def opened(revocation="{}"):
    """A vault whose files are written; workers are opened by the test."""
    endpoint = Endpoint()
    app = web.Application()
    app.router.add_post("/introspect", endpoint.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint.port = runner.addresses[0][1]
    with short_folder() as folder:
        (folder / "idp.json").write_bytes(tokens.key_set(tokens.jwk("ed")))
        (folder / "partner.json").write_bytes(tokens.key_set(tokens.jwk("ed-2")))
        (folder / "secret").write_text("s3cret\n")
        vault = Vault(folder, endpoint, revocation.replace("FOLDER", str(folder)))
        vault.write_keys("k1", "k2")
        vault.write()
        try:
            yield vault
        finally:
            await vault.close()
            await runner.cleanup()


class Feed:
    """A Redis server on a Unix socket, which can be ended and begun again."""

    def __init__(self, folder):
        self.path = folder / "r.sock"
        self.process = None

    @property
    def url(self):
        return f"unix://{self.path}"

    def spawn(self):
        command = ["redis-server", "--port", "0", "--unixsocket", str(self.path), "--save", ""]
        self.process = subprocess.Popen([*command, "--dir", str(self.path.parent)], stdout=subprocess.DEVNULL)

    async def start(self):
        self.spawn()
        client = Redis(unix_socket_path=str(self.path))
        async with asyncio.timeout(20):
            while True:
                try:
                    await client.ping()
                except (RedisError, OSError):
                    await asyncio.sleep(0.01)
                else:
                    break
        await client.aclose()

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
