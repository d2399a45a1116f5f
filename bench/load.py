"""One run of load: h2load, with every request's time, and the CPU that named processes spent meanwhile.

A fixed rate comes evenly. h2load's `--rps` lets each connection send what is due on a timer of its own, of 10 ms at the
least, and all timers start at once: 4 connections at 2000/s send 20 requests together every 10 ms, and the percentiles
tell how long such a burst queues, whatever a decision costs. So a fixed rate is spread over so many connections that
each sends one request at a time, and they start one after another (`-r`, `--rate-period`) such that their turns lie
evenly in the period they share. What is left of bunching is h2load's clock of 1 ms: at 2000/s two may come together.
"""

import itertools
import math
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
WARM_UP = 0.15
"""The part of the requests, from the start, that is not counted: connections open and caches fill in it."""
SENDERS = 31
"""Connections of a run at a fixed rate, at the least."""
TICK = 0.01
"""Seconds of h2load's shortest timer: a connection that has to send more often sends several at once."""


class LoadFailed(Exception):
    """The load generator is missing, or requests failed; the text says which."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one run showed. Times in milliseconds, `cpu_us` in microseconds per request.

    `rps` are answers per second in the middle of the run, without its start and its end. `cpu_us` has each named
    process, and "generator": h2load itself.
    """

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
    """How the load comes: how many in all, over how many connections of how many streams; `rate` per second, 0 free.

    At a fixed rate the connections are those that make it even, and `requests` is rounded so that all send the same.
    """

    requests: int
    connections: int = 4
    streams: int = 16
    rate: int = 0


def run_load(target: Target, shape: Shape, processes: Mapping[str, Sequence[int]]) -> Load:
    """Run h2load once. Raises LoadFailed where it is not installed or where any answer was not 2xx."""
    return run_loads([target], shape, processes)


def run_loads(targets: Sequence[Target], shape: Shape, processes: Mapping[str, Sequence[int]]) -> Load:
    """Run one h2load of this shape for each target, all at once, and take them as one load. Raises LoadFailed."""
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / str(number) for number in range(len(targets))]
        commands = [_command(target, shape, log) for target, log in zip(targets, logs, strict=True)]
        before = _spent(processes)
        running = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for c in commands]
        said = [process.communicate()[0] for process in running]
        after = _spent(processes)
        for process, log, text in zip(running, logs, said, strict=True):
            if process.returncode != 0 or not log.exists():
                raise LoadFailed(text[-500:])
        rows = [line for log in logs for line in log.read_text(encoding="ascii").splitlines()]
        return read_rows(rows, {name: after[name] - before[name] for name in after})


def _spent(processes: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """Sum CPU seconds by name, with those of the generators that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {name: cpu_seconds(pids) for name, pids in processes.items()} | {
        "generator": ended.ru_utime + ended.ru_stime
    }


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
    command = [program, "-m", str(shape.streams), "--log-file", str(log), *pace(shape)]
    for name, value in target.headers:
        command += ["-H", f"{name}: {value}"]
    if target.body is not None:
        command += ["-d", str(target.body)]
    if target.socket is not None:
        command += ["--base-uri", f"unix:{target.socket}"]
    return [*command, target.url]


def pace(shape: Shape) -> list[str]:
    """Choose h2load's options for how many requests come when."""
    if not shape.rate:
        return ["-n", str(shape.requests), "-c", str(shape.connections)]
    senders = max(SENDERS, math.ceil(shape.rate * TICK)) | 1
    each = max(1, round(shape.requests / senders))
    options = ["-n", str(each * senders), "-c", str(senders), "--rps", f"{shape.rate / senders:.4f}"]
    return [*options, "-r", "1", "--rate-period", f"{spacing(shape.rate, senders)}ms"]


def spacing(rate: int, senders: int) -> int:
    """Find the milliseconds between two senders' starts that spread their turns most evenly over their period.

    h2load takes whole milliseconds only. A few more than one turn's length lead round the period several times.
    """
    period = 1000 * senders / rate

    def widest(step: int) -> float:
        turns = sorted(number * step % period for number in range(senders))
        return max(later - turn for turn, later in itertools.pairwise([*turns, turns[0] + period]))

    return min(range(1, math.ceil(1000 / rate) + 5), key=widest)


def read_rows(lines: Sequence[str], cpu: Mapping[str, float]) -> Load:
    """Read h2load's log: start in microseconds, status, duration in microseconds. `cpu` is in seconds.

    Raises LoadFailed where it is empty or any answer was not 2xx.
    """
    rows = sorted((int(start), status, int(taken)) for start, status, taken, *_ in (line.split("\t") for line in lines))
    total = len(rows)
    failed = sum(1 for _, status, _ in rows if not status.startswith("2"))
    if not total or failed:
        statuses = ", ".join(sorted({status for _, status, _ in rows}))
        raise LoadFailed(f"{failed} of {total} requests failed; statuses: {statuses or 'none'}")
    counted = sorted(taken / 1000 for _, _, taken in rows[int(total * WARM_UP) :])
    return Load(
        total,
        failed,
        middle_rate([start + taken for start, _, taken in rows]),
        quantile(counted, 0.5),
        quantile(counted, 0.99),
        quantile(counted, 0.999),
        counted[-1],
        {name: spent / total * 1e6 for name, spent in cpu.items()},
    )


def middle_rate(ends: Sequence[int]) -> float:
    """Count answers per second from their times in microseconds, leaving out `WARM_UP` at both ends."""
    ordered = sorted(ends)
    first, last = int(len(ordered) * WARM_UP), int((len(ordered) - 1) * (1 - WARM_UP))
    return (last - first) / max(1e-6, (ordered[last] - ordered[first]) / 1e6)


def quantile(ordered: Sequence[float], part: float) -> float:
    """Pick the value below which this part of ordered values lies."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
