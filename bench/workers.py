"""Two workers on two cores: what a request costs the sidecar, against one worker, straight at the sockets.

One worker is loaded by one h2load, two workers by two at the same time, each as fast as it is answered. Envoy is left
out: before two workers it sends smaller batches to each, and the figure would be Envoy's. The sidecar's CPU is that of
the parent and its workers; what h2load itself spent is not in it and stands beside it.
"""

import statistics
import tempfile
from pathlib import Path

from bench.direct import target_check
from bench.fleet import Fleet, open_fleet
from bench.load import Load, Shape, run_loads


def measure_workers(server: str, rounds: int = 5, requests: int = 10_000) -> dict[str, float]:
    """Load one worker and two workers in turn, `requests` for each worker; medians, CPU in microseconds per request."""
    found: dict[int, list[Load]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory(prefix="wg") as top:
        for turn in range(rounds):
            for workers, loads in found.items():
                folder = Path(top) / f"{turn}-{workers}"
                folder.mkdir()
                with open_fleet(folder, server, workers) as fleet:
                    load_workers(fleet, requests // 4)
                    loads.append(load_workers(fleet, requests))
    one, two = (statistics.median(load.cpu_us["sidecar"] for load in loads) for loads in found.values())
    return {
        "one_worker_cpu_us": one,
        "two_workers_cpu_us": two,
        "one_worker_rps": statistics.median(load.rps for load in found[1]),
        "two_workers_rps": statistics.median(load.rps for load in found[2]),
        "generator_cpu_us": statistics.median(load.cpu_us["generator"] for loads in found.values() for load in loads),
        "cpu_two_workers_over_one": two / one,
    }


def load_workers(fleet: Fleet, requests: int) -> Load:
    """Saturate all workers at once, each with a load generator of its own."""
    targets = [target_check(fleet.folder, socket, fleet.token) for socket in fleet.sockets()]
    return run_loads(targets, Shape(requests, connections=4, streams=16), {"sidecar": fleet.pids("wardgate")})
