"""How long from the start of the process to ready, with the open-banking document."""

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench.fleet import ROOT, FleetFailed, free_ports, mint_identity
from demo.pki import ensure_pki


def measure_start(rounds: int = 3) -> dict[str, float]:
    """Start the sidecar some times; `ready_s` is the median in seconds."""
    with tempfile.TemporaryDirectory(prefix="wg") as folder:
        ensure_pki(Path(folder) / "pki")
        with serve_keys() as url:
            return {"ready_s": statistics.median(start_once(Path(folder), url) for _ in range(rounds))}


@contextmanager
def serve_keys() -> Iterator[str]:
    """Publish a key set as an identity provider does; without one the sidecar waits for it before it is ready."""
    document = mint_identity()[0].encode()

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(document)

        def log_message(self, *_parts: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Keys)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def start_once(run: Path, identity: str) -> float:
    """Start it and wait for /readyz. Raises FleetFailed where it does not come."""
    (port,) = free_ports(1)
    environment = os.environ | {
        "WARDGATE_RUN": str(run),
        "WARDGATE_SIDECAR": f"unix:{run}/s.sock",
        "IDP_URL": identity,
    }
    document = ROOT / "examples" / "open-banking" / "gateway.yaml"
    command = [sys.executable, "-m", "sidecar", "serve", "--document", str(document), "--admin", f"127.0.0.1:{port}"]
    started = time.monotonic()
    process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not is_ready(port):
            if process.poll() is not None or time.monotonic() - started > 30:
                raise FleetFailed("the sidecar did not become ready")
            time.sleep(0.005)
        return time.monotonic() - started
    finally:
        process.terminate()
        process.wait(15)


def is_ready(port: int) -> bool:
    """Ask /readyz once."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False
