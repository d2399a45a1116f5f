"""What a reload costs the requests that are under way: 800 routes, edited under load, straight to the sidecar."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.direct import target_check
from bench.fleet import ROOT, FleetFailed, free_ports, mint_identity
from bench.load import Load, Shape, Target, run_load
from bench.start import is_ready

ROUTES = 800
RATE = 300
SECONDS = 12
"""Long enough for an edit after one second to be seen, read, checked and taken up."""
ROUTE = """
  - id: more-{number}
    plane: bench
    match: {{path: /v1/more/{number}, methods: [GET]}}
    upstream: origin
    require: {{scopes: [{scope}]}}
    timeout: 2500ms
"""


def measure_reload(server: str, rounds: int = 3) -> dict[str, float]:
    """Load a sidecar evenly, without and with an edit meanwhile; medians of the rounds, in milliseconds."""
    quiet, edited = [], []
    with tempfile.TemporaryDirectory(prefix="wg") as folder:
        for number in range(rounds):
            place = Path(folder) / str(number)
            place.mkdir()
            keys, token = mint_identity()
            with open_sidecar(place, server, write_routes("accounts"), keys) as sidecar:
                target = target_check(place, sidecar.socket, token)
                load_while(target, SECONDS // 4, lambda: None)
                quiet.append(load_while(target, SECONDS, lambda: None))
                edited.append(load_while(target, SECONDS, lambda: sidecar.edit(write_routes("payments"))))
    return {
        "reload_p99_added_ms": middle(edited, "p99") - middle(quiet, "p99"),
        "reload_longest_added_ms": middle(edited, "longest") - middle(quiet, "longest"),
        "reload_quiet_p99_ms": middle(quiet, "p99"),
        "reload_quiet_longest_ms": middle(quiet, "longest"),
    }


def middle(loads: list[Load], figure: str) -> float:
    """Take the median of one figure."""
    return statistics.median(getattr(load, figure) for load in loads)


def write_routes(scope: str) -> str:
    """Write a document of many routes that ask for a scope."""
    base = (ROOT / "bench" / "gateway.yaml").read_text(encoding="utf-8")
    return base + "".join(ROUTE.format(number=number, scope=scope) for number in range(ROUTES - 2))


class Sidecar:
    """A sidecar over a document in a folder of its own, with an issuer's keys in `keys.json`."""

    def __init__(self, folder: Path, server: str, text: str, keys: str) -> None:
        """Write the document and start; ready when `open_sidecar` gives it."""
        self.socket = folder / "w.sock"
        self.document = folder / "gateway.yaml"
        (folder / "keys.json").write_text(keys, encoding="utf-8")
        self.document.write_text(text, encoding="utf-8")
        self.port, *others = free_ports(4)
        names = ("BENCH_ADMIN", "BENCH_PORT", "BENCH_ORIGIN")
        environment = os.environ | dict(zip(names, map(str, others), strict=True))
        environment |= {"BENCH_KEYS": str(folder / "keys.json"), "BENCH_SIDECAR": f"unix:{self.socket}"}
        command = [sys.executable, "-m", "sidecar", "serve", "--document", str(self.document), "--server", server]
        command += ["--admin", f"127.0.0.1:{self.port}", "--log-level", "warning", "--state", str(folder / "state")]
        self.process = subprocess.Popen(command, env=environment, cwd=ROOT)

    def version(self) -> str:
        """Ask which policy is in force."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/snapshot", timeout=5) as answer:
            return str(json.load(answer)["version"])

    def edit(self, text: str) -> None:
        """Write another document and wait until it is in force. Raises FleetFailed where it is not taken up."""
        before, end = self.version(), time.monotonic() + SECONDS - 2
        self.document.write_text(text, encoding="utf-8")
        while self.version() == before:
            if time.monotonic() > end:
                raise FleetFailed("the edit was not taken up in time")
            time.sleep(0.2)


@contextlib.contextmanager
def open_sidecar(folder: Path, server: str, text: str, keys: str) -> Iterator[Sidecar]:
    """Start a sidecar, wait until it is ready, end it. Raises FleetFailed."""
    sidecar = Sidecar(folder, server, text, keys)
    end = time.monotonic() + 60
    try:
        while not is_ready(sidecar.port):
            if sidecar.process.poll() is not None or time.monotonic() > end:
                raise FleetFailed("the sidecar did not become ready")
            time.sleep(0.05)
        yield sidecar
    finally:
        sidecar.process.terminate()
        sidecar.process.wait(15)


def load_while(target: Target, seconds: int, act: Callable[[], None]) -> Load:
    """Send calls at an even rate and act after the first second. Raises what the act raised."""
    failures: list[FleetFailed | OSError] = []

    def wait_and_act():
        time.sleep(1)
        try:
            act()
        except (FleetFailed, OSError) as failure:
            failures.append(failure)

    acting = threading.Thread(target=wait_and_act)
    acting.start()
    load = run_load(target, Shape(RATE * seconds, connections=4, streams=8, rate=RATE), {})
    acting.join()
    if failures:
        raise failures[0]
    return load
