"""Through Envoy: what each way of deciding adds, at fixed rates and at saturation, in interleaved rounds.

At a fixed rate the requests come evenly (bench/load.py says how), so its times are those of single requests and not of
the queue of a burst.
"""

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.fleet import VARIANTS, Fleet, open_fleet
from bench.load import Load, Shape, Target, run_load

PARTS = (0.10, 0.25, 0.50)
"""Fixed rates, as parts of what the fused variant answers at saturation."""

FULL = 32
"""Requests in flight on each of 4 connections at saturation; with half as many the cores are not busy all the time."""

Rows = dict[tuple[str, str], list[Load]]
"""(variant, "free" or a part) -> the runs of all rounds."""


def measure_through(server: str, rounds: int = 5, seconds: float = 2.0, workers: int = 1) -> Rows:
    """Run all variants `rounds` times, interleaved; fixed rates run for about `seconds` each."""
    rows: Rows = {}
    with tempfile.TemporaryDirectory(prefix="wg") as folder, open_fleet(Path(folder), server, workers) as fleet:
        for variant in VARIANTS:
            run_variant(fleet, variant, Shape(3000))
        free = statistics.median(run_variant(fleet, "fused", Shape(6000, streams=FULL)).rps for _ in range(3))
        for _ in range(rounds):
            for variant in VARIANTS:
                full = Shape(int(free * seconds), streams=FULL)
                rows.setdefault((variant, "free"), []).append(run_variant(fleet, variant, full))
                for part in PARTS:
                    rate = max(40, int(free * part))
                    shape = Shape(int(rate * seconds), streams=2, rate=rate)
                    rows.setdefault((variant, f"{part:.0%}"), []).append(run_variant(fleet, variant, shape))
    return rows


def run_variant(fleet: Fleet, variant: str, shape: Shape) -> Load:
    """Run one variant once."""
    path = "/v1/statements" if variant == "response" else "/v1/accounts"
    target = Target(f"http://127.0.0.1:{fleet.ports[variant]}{path}", (("authorization", f"Bearer {fleet.token}"),))
    decider = "noop" if variant == "noop" else "wardgate"
    return run_load(target, shape, {"envoy": fleet.pids("envoy"), "sidecar": fleet.pids(decider)})


def middle(rows: Rows, variant: str, pace: str, figure: str) -> float:
    """Take the median over the rounds of one figure (p50, p99, p999, rps)."""
    return statistics.median(getattr(load, figure) for load in rows[variant, pace])


def middle_cpu(rows: Rows, variant: str, pace: str, process: str) -> float:
    """Take the median over the rounds of the CPU per request of one process, in microseconds."""
    return statistics.median(load.cpu_us[process] for load in rows[variant, pace])


def spread(loads: Sequence[Load], figure: str) -> float:
    """Tell how noisy the machine was: the greatest over the smallest of the rounds."""
    values = [getattr(load, figure) for load in loads]
    return max(values) / max(1e-9, min(values))


def through_figures(rows: Rows) -> dict[str, float]:
    """Pick the figures that are compared over time."""
    quarter = "25%"
    p50 = {v: middle(rows, v, quarter, "p50") for v in VARIANTS}
    p99 = {v: middle(rows, v, quarter, "p99") for v in VARIANTS}
    rps = {v: middle(rows, v, "free", "rps") for v in VARIANTS}
    return {
        "baseline_p50_ms": p50["baseline"],
        "baseline_p99_ms": p99["baseline"],
        "added_p50_ms": p50["fused"] - p50["baseline"],
        "added_p99_ms": p99["fused"] - p99["baseline"],
        "p99_added_ms_25": p99["fused"] - p99["baseline"],
        "p50_over_noop": (p50["fused"] - p50["baseline"]) / max(1e-9, p50["noop"] - p50["baseline"]),
        "p50_whole_over_noop": p50["fused"] / p50["noop"],
        "p99_over_noop_25": p99["fused"] / p99["noop"],
        "fused_over_split_rps": rps["fused"] / rps["split"],
        "fused_rps": rps["fused"],
        "noop_rps": rps["noop"],
        "native_rps": rps["native"],
        "baseline_rps": rps["baseline"],
    }
