"""Two workers on two cores: what a request costs the sidecar, against one worker, straight at the sockets.

One worker is loaded by one h2load, two workers by two at the same time, each as fast as it is answered. Envoy is left
out: before two workers it sends smaller batches to each, and the figure would be Envoy's. The sidecar's CPU is that of
the parent and its workers; what h2load itself spent is not in it and stands beside it. The machine's own speed drifts,
so both run all the time, are loaded in short turns, and the ratio is the median of the rounds' own ratios.
"""

import statistics
import tempfile
from pathlib import Path

from bench.direct import target_check
from bench.fleet import Fleet, open_fleet
from bench.load import Load, Shape, run_loads


def measure_workers(server: str, rounds: int = 5, requests: int = 8_000) -> dict[str, float]:
    """Load one worker and two workers in turn, `requests` for each worker; CPU in microseconds per request, medians."""
    with tempfile.TemporaryDirectory(prefix="wg") as top:
        folders = [Path(top) / "one", Path(top) / "two"]
        for folder in folders:
            folder.mkdir()
        with open_fleet(folders[0], server, 1) as single, open_fleet(folders[1], server, 2) as double:
            for fleet in (single, double):
                load_workers(fleet, requests // 2)
            pairs = [(load_workers(single, requests), load_workers(double, requests)) for _ in range(rounds)]
    one, two = zip(*pairs, strict=True)
    return {
        "one_worker_cpu_us": statistics.median(load.cpu_us["sidecar"] for load in one),
        "two_workers_cpu_us": statistics.median(load.cpu_us["sidecar"] for load in two),
        "one_worker_rps": statistics.median(load.rps for load in one),
        "two_workers_rps": statistics.median(load.rps for load in two),
        "generator_cpu_us": statistics.median(load.cpu_us["generator"] for load in (*one, *two)),
        "cpu_two_workers_over_one": statistics.median(b.cpu_us["sidecar"] / a.cpu_us["sidecar"] for a, b in pairs),
    }


def load_workers(fleet: Fleet, requests: int) -> Load:
    """Saturate all workers at once, each with a load generator of its own."""
    targets = [target_check(fleet.folder, socket, fleet.token) for socket in fleet.sockets()]
    return run_loads(targets, Shape(requests, connections=4, streams=16), {"sidecar": fleet.pids("wardgate")})
