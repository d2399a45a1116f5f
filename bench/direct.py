"""Servers without Envoy before them: real CheckRequests over a Unix socket, no-op and deciding, on every server."""

import struct
import tempfile
from pathlib import Path

from bench.fleet import Fleet, open_fleet
from bench.load import Load, Shape, Target, run_load
from pb import envoy_core_pb2 as core
from pb import ext_authz_pb2 as pb

CHECK = "/envoy.service.auth.v3.Authorization/Check"
HEADERS = (("content-type", "application/grpc"), ("te", "trailers"))


def measure_servers(servers: tuple[str, ...], rounds: int = 5, requests: int = 20_000) -> dict[str, dict[str, Load]]:
    """Run no-op and deciding servers in turn; each entry is the round of median CPU: server -> kind -> load."""
    found: dict[str, dict[str, list[Load]]] = {}
    with tempfile.TemporaryDirectory(prefix="wg") as top:
        folders = {server: Path(top) / server for server in servers}
        for folder in folders.values():
            folder.mkdir()
        for turn in range(rounds + 1):
            for server in servers:
                with open_fleet(folders[server], server) as fleet:
                    for kind in ("noop", "wardgate"):
                        load = run_direct(fleet, kind, Shape(requests, connections=8, streams=8))
                        if turn:  # the first turn warms the machine up
                            found.setdefault(server, {}).setdefault(kind, []).append(load)
    return {
        server: {kind: median_load(loads, kind) for kind, loads in kinds.items()} for server, kinds in found.items()
    }


def run_direct(fleet: Fleet, kind: str, shape: Shape) -> Load:
    """Send one load of CheckRequests straight to a server of the fleet."""
    socket = fleet.folder / ("n.sock" if kind == "noop" else "w.sock")
    target = target_check(fleet.folder, socket, fleet.token)
    return run_load(target, shape, {kind: fleet.pids(kind)})


def target_check(folder: Path, socket: Path, token: str) -> Target:
    """Aim at the Check method behind a socket; the body is written into the folder."""
    body = folder / "check.bin"
    message = check_request(token)
    body.write_bytes(b"\x00" + struct.pack(">I", len(message)) + message)
    return Target(f"http://localhost{CHECK}", HEADERS, body, socket)


def median_load(loads: list[Load], kind: str) -> Load:
    """Pick the run whose CPU per call is the median one."""
    ordered = sorted(loads, key=lambda load: load.cpu_us[kind])
    return ordered[len(ordered) // 2]


def check_request(token: str) -> bytes:
    """A CheckRequest as the compiled Envoy sends it: raw, and of the header fields only those that are read."""
    request = pb.CheckRequest()
    attributes = request.attributes
    attributes.source.address.socket_address.address = "192.0.2.7"
    attributes.source.address.socket_address.port_value = 40000
    attributes.context_extensions["wardgate.route"] = "accounts"
    http = attributes.request.http
    http.id, http.method, http.path, http.host, http.scheme = "1", "GET", "/v1/accounts", "bench.example", "https"
    fields = {"x-request-id": "2b0d3c4e-0000-4000-8000-000000000000", "authorization": f"Bearer {token}"}
    for name, value in fields.items():
        http.header_map.headers.append(core.HeaderValue(key=name, raw_value=value.encode()))
    return request.SerializeToString()
