"""`python -m bench`: measure, print, write build/figures/bench.json, and with `--docs` rewrite docs/benchmarks.md."""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

from bench.decide import measure
from bench.direct import measure_servers
from bench.growth import growth_figures, measure_growth
from bench.limits import measure as measure_limits
from bench.load import LoadFailed
from bench.reload import measure_reload
from bench.report import write_report
from bench.start import measure_start
from bench.through import measure_through, through_figures
from bench.workers import measure_workers
from sidecar.worker import SERVERS

ROOT = Path(__file__).parent.parent
PARTS = ("core", "growth", "start", "reload", "servers", "through", "workers", "limits")


def main() -> int:
    """Run the parts that were asked for, all by default; the exit code."""
    options = parse_options()
    try:
        need_generator()
        figures, tables = run_parts(options)
    except LoadFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    write_figures(figures)
    text = write_report(figures, tables)
    print(text)
    if options.docs:
        (ROOT / "docs" / "benchmarks.md").write_text(text, encoding="utf-8")
    return 0


def parse_options():
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part; may be given several times")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default: 5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each fixed-rate run (default: 2)")
    parser.add_argument(
        "--server",
        choices=sorted(SERVERS),
        default="zttp",
        help="the server of the other parts (default: zttp)",
    )
    parser.add_argument("--docs", action="store_true", help="rewrite docs/benchmarks.md")
    return parser.parse_args()


def need_generator():
    """Install the load generator where it is missing and that is possible. Raises LoadFailed where it is not."""
    if shutil.which("h2load") is None and shutil.which("apt-get") is not None:
        subprocess.run(["apt-get", "install", "--yes", "--quiet", "nghttp2-client"], check=False, capture_output=True)
    if shutil.which("h2load") is None:
        raise LoadFailed("h2load is not installed; Debian has it in the package nghttp2-client")


def run_parts(options):
    """Measure; figures by name, and the tables behind them by part."""
    wanted = options.only or PARTS
    figures, tables = {}, {}

    def note(name, table, found):
        tables[name] = table
        figures.update(found)

    for part in wanted:
        print(f"bench: {part} ...", file=sys.stderr, flush=True)
        note(part, *MEASURES[part](options))
    return figures, tables


def core_part(_options):
    found = measure()
    return found, found | {"check_us": found["hot_us"]}


def growth_part(_options):
    grown = measure_growth()
    return grown, growth_figures(grown)


def start_part(_options):
    found = measure_start()
    return found, found


def reload_part(options):
    found = measure_reload(options.server)
    return found, found


def servers_part(options):
    loads = measure_servers(tuple(SERVERS), options.rounds)
    figures = {}
    for server, kinds in loads.items():
        figures[f"{server}_cpu_us"] = kinds["noop"].cpu_us["noop"]
        figures[f"{server}_rps"] = kinds["noop"].rps
        figures[f"{server}_fused_cpu_us"] = kinds["wardgate"].cpu_us["wardgate"]
        figures[f"{server}_fused_rps"] = kinds["wardgate"].rps
    figures["cpu_fused_over_noop_grpcio"] = figures[f"{options.server}_fused_cpu_us"] / figures["grpcio_cpu_us"]
    return loads, figures


def through_part(options):
    rows = measure_through(options.server, options.rounds, options.seconds)
    return rows, through_figures(rows)


def workers_part(options):
    found = measure_workers(options.server, options.rounds)
    return found, {"cpu_two_workers_over_one": found["cpu_two_workers_over_one"]}


def limits_part(_options):
    found = measure_limits()
    return found, found


MEASURES = {
    "core": core_part,
    "growth": growth_part,
    "start": start_part,
    "reload": reload_part,
    "servers": servers_part,
    "through": through_part,
    "workers": workers_part,
    "limits": limits_part,
}


def write_figures(figures):
    """Merge the figures into build/figures/bench.json."""
    path = ROOT / "build" / "figures" / "bench.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(known | {name: round(value, 4) for name, value in figures.items()}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
