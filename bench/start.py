"""How long from the start of the process to ready, with the open-banking document."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from bench.fleet import ROOT, FleetFailed, free_ports
from demo.pki import ensure_pki


def measure_start(rounds: int = 3) -> dict[str, float]:
    """Start the sidecar some times; `ready_s` is the median in seconds."""
    with tempfile.TemporaryDirectory(prefix="wg") as folder:
        ensure_pki(Path(folder) / "pki")
        return {"ready_s": statistics.median(start_once(Path(folder)) for _ in range(rounds))}


def start_once(run: Path) -> float:
    """Start it and wait for /readyz. Raises FleetFailed where it does not come."""
    (port,) = free_ports(1)
    (run / "jwks.json").write_text(json.dumps({"keys": []}), encoding="utf-8")
    environment = os.environ | {"WARDGATE_RUN": str(run), "WARDGATE_SIDECAR": f"unix:{run}/s.sock"}
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
