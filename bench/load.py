"""One run of load: h2load, with every request's time, and the CPU that named processes spent meanwhile."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
WARM_UP = 0.15
"""The part of the requests, from the start, that is not counted: connections open and caches fill in it."""


class LoadFailed(Exception):
    """The load generator is missing, or requests failed; the text says which."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one run showed. Times in milliseconds, `cpu_us` in microseconds per request for each named process."""

    requests: int
    failed: int
    rps: float
    p50: float
    p99: float
    p999: float
    longest: float
    cpu_us: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Target:
    """Where the load goes: a URL, its header fields, the body file of a POST, and the Unix socket to go through."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: Path | None = None
    socket: Path | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """How the load comes: how many in all, over how many connections of how many streams; `rate` per second, 0 free."""

    requests: int
    connections: int = 4
    streams: int = 16
    rate: int = 0


def run_load(target: Target, shape: Shape, processes: Mapping[str, Sequence[int]]) -> Load:
    """Run h2load once. Raises LoadFailed where it is not installed or where any answer was not 2xx."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = _command(target, shape, log)
        before = {name: cpu_seconds(pids) for name, pids in processes.items()}
        started = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        elapsed = time.monotonic() - started
        after = {name: cpu_seconds(pids) for name, pids in processes.items()}
        return _read_run(done, log, elapsed, {n: after[n] - before[n] for n in processes})


def cpu_seconds(pids: Sequence[int]) -> float:
    """Sum the CPU time, user and system, that processes have spent so far."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def _command(target: Target, shape: Shape, log: Path) -> list[str]:
    program = shutil.which("h2load")
    if program is None:
        raise LoadFailed("h2load is not installed; Debian has it in the package nghttp2-client")
    command = [program, "-n", str(shape.requests), "-c", str(shape.connections), "-m", str(shape.streams)]
    command += ["--log-file", str(log)]
    if shape.rate:
        command += ["--rps", str(max(1, shape.rate // shape.connections))]
    for name, value in target.headers:
        command += ["-H", f"{name}: {value}"]
    if target.body is not None:
        command += ["-d", str(target.body)]
    if target.socket is not None:
        command += ["--base-uri", f"unix:{target.socket}"]
    return [*command, target.url]


def _read_run(done: subprocess.CompletedProcess[str], log: Path, elapsed: float, cpu: Mapping[str, float]) -> Load:
    if done.returncode != 0 or not log.exists():
        raise LoadFailed(done.stderr.strip()[-500:] or done.stdout[-500:])
    rows = [line.split("\t") for line in log.read_text(encoding="ascii").splitlines()]
    rows.sort(key=lambda row: int(row[0]))
    total = len(rows)
    failed = sum(1 for row in rows if not row[1].startswith("2"))
    if not total or failed:
        raise LoadFailed(f"{failed} of {total} requests failed: {done.stdout[-600:]}")
    counted = sorted(int(row[2]) / 1000 for row in rows[int(total * WARM_UP) :])
    found = re.search(r"finished in [\d.]+\w+, ([\d.]+) req/s", done.stdout)
    rps = float(found[1]) if found else total / elapsed
    per_request = {name: seconds / total * 1e6 for name, seconds in cpu.items()}
    return Load(
        total,
        failed,
        rps,
        quantile(counted, 0.5),
        quantile(counted, 0.99),
        quantile(counted, 0.999),
        counted[-1],
        per_request,
    )


def quantile(ordered: Sequence[float], part: float) -> float:
    """Pick the value below which this part of ordered values lies."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
