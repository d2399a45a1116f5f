"""Two workers on two cores: what a request costs the sidecar, against one worker under the same load."""

import statistics
import tempfile
from pathlib import Path

from bench.fleet import open_fleet
from bench.load import Shape
from bench.through import run_variant


def measure_workers(server: str, rounds: int = 5, requests: int = 4000) -> dict[str, float]:
    """Run the fused variant before one and before two workers, in turn."""
    found: dict[int, list[float]] = {1: [], 2: []}
    rps: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory(prefix="wg") as top:
        for turn in range(rounds):
            for workers in (1, 2):
                folder = Path(top) / f"{turn}-{workers}"
                folder.mkdir()
                with open_fleet(folder, server, workers) as fleet:
                    run_variant(fleet, "fused", Shape(1000))
                    load = run_variant(fleet, "fused", Shape(requests))
                    found[workers].append(load.cpu_us["sidecar"])
                    rps[workers].append(load.rps)
    one, two = statistics.median(found[1]), statistics.median(found[2])
    return {
        "one_worker_cpu_us": one,
        "two_workers_cpu_us": two,
        "one_worker_rps": statistics.median(rps[1]),
        "two_workers_rps": statistics.median(rps[2]),
        "cpu_two_workers_over_one": two / one,
    }
