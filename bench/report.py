"""The report: ratios first, then the tables that they come from."""

import os
import platform
from collections.abc import Mapping
from typing import Any

from bench.fleet import VARIANTS
from bench.through import PARTS, Rows, middle, middle_cpu, spread

# figure -> (what it says, the aim, whether more is better)
AIMS: dict[str, tuple[str, float, bool]] = {
    "core_hot_over_ed25519": ("hot decision over one Ed25519 verification", 0.5, False),
    "cold_rs256_over_pyjwt": ("cold decision, RS256, over PyJWT's own decode", 1.5, False),
    "cold_eddsa_over_pyjwt": ("cold decision, EdDSA, over PyJWT's own decode", 1.5, False),
    "cpu_fused_over_noop_grpcio": ("CPU of a fused Check over a no-op Check on grpc.aio", 0.65, False),
    "p50_over_noop": ("added p50 over that of a no-op ext_authz", 1.25, False),
    "p99_added_ms_25": ("added p99 at 25 % of saturation, ms", 4.5, False),
    "p99_over_noop_25": ("p99 over that of a no-op ext_authz at 25 %", 1.3, False),
    "fused_over_split_rps": ("requests/s, fused over split", 1.7, True),
    "growth_routes": ("10 to 800 routes", 1.1, False),
    "growth_credentials": ("10 to 500,000 credentials", 1.1, False),
    "growth_buckets": ("10 to 100,000 live buckets", 1.1, False),
    "growth_issuers": ("1 to 50 issuers", 1.1, False),
    "cpu_two_workers_over_one": ("CPU per request, two workers over one", 1.1, False),
    "ready_s": ("start to ready, seconds", 2.0, False),
    "reload_p99_added_ms": ("reload of 800 routes: added p99, ms", 10.0, False),
    "reload_longest_added_ms": ("reload of 800 routes: added to the slowest request, ms", 10.0, False),
}

NAMES = {
    "baseline": "Envoy alone",
    "native": "Envoy's jwt_authn + local_ratelimit",
    "noop": "no-op ext_authz",
    "fused": "wardgate, one Check",
    "split": "wardgate, ext_authz + rate limit service",
    "response": "wardgate, one Check + ext_proc on the response",
}


def write_report(figures: Mapping[str, float], tables: Mapping[str, Any]) -> str:
    """Write the report in Markdown, of the parts that were measured."""
    parts = [head(), ratios(figures)]
    if "core" in tables:
        parts.append(core_table(tables["core"]))
    if "servers" in tables:
        parts.append(server_table(tables["servers"]))
    if "through" in tables:
        parts.append(through_table(tables["through"]))
    if "growth" in tables:
        parts.append(growth_table(tables["growth"]))
    parts += [plain_table(name, tables[name]) for name in ("workers", "reload", "limits") if name in tables]
    return "\n".join(parts)


def head() -> str:
    """Say what was measured where."""
    return (
        "# Benchmarks\n\n"
        "Written by `make bench`. Everything in one table was measured in one run, interleaved, as medians; absolute\n"
        "numbers are those of a small shared machine and say little, the ratios say what wardgate costs.\n\n"
        f"Machine: {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}; load generator,\n"
        "Envoy, origin and sidecar share them. Envoy runs one worker thread.\n"
    )


def ratios(figures: Mapping[str, float]) -> str:
    """List the figures that have an aim."""
    rows = ["## Ratios\n", "| what | measured | aim | holds |", "|---|---:|---:|---|"]
    for name, (what, aim, more) in AIMS.items():
        if name in figures:
            value = figures[name]
            holds = value >= aim if more else value <= aim
            rows.append(f"| {what} | {value:.2f} | {'≥' if more else '≤'} {aim} | {'yes' if holds else 'no'} |")
    return "\n".join(rows) + "\n"


def core_table(core: Mapping[str, float]) -> str:
    """List what the parts of a decision cost."""
    rows = ["## One decision, bytes to bytes\n", "| part | µs |", "|---|---:|"]
    rows += [f"| {name.removesuffix('_us')} | {value:.1f} |" for name, value in core.items() if name.endswith("_us")]
    return "\n".join(rows) + "\n"


def server_table(servers: Mapping[str, Any]) -> str:
    """Compare the servers without Envoy before them."""
    rows = [
        "## Servers alone, real CheckRequests over a Unix socket\n",
        "| server | handler | CPU µs/call | calls/s | p50 ms | p99 ms |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for server, kinds in servers.items():
        for kind, load in kinds.items():
            cells = f"{load.cpu_us[kind]:.0f} | {load.rps:.0f} | {load.p50:.2f} | {load.p99:.2f}"
            rows.append(f"| {server} | {kind} | {cells} |")
    return "\n".join(rows) + "\n"


def through_table(rows: Rows) -> str:
    """Compare the variants behind Envoy."""
    lines = [
        "## Through Envoy\n",
        "Fixed rates are parts of what the fused variant answers at saturation; the same rate for every variant.\n",
        "| variant | pace | requests/s | p50 ms | p99 ms | p99.9 ms | Envoy µs | sidecar µs | noise |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for variant in VARIANTS:
        for pace in (*(f"{part:.0%}" for part in PARTS), "free"):
            times = " | ".join(f"{middle(rows, variant, pace, name):.2f}" for name in ("p50", "p99", "p999"))
            cpu = " | ".join(f"{middle_cpu(rows, variant, pace, name):.0f}" for name in ("envoy", "sidecar"))
            rps, noise = middle(rows, variant, pace, "rps"), spread(rows[variant, pace], "p50")
            lines.append(f"| {NAMES[variant]} | {pace} | {rps:.0f} | {times} | {cpu} | {noise:.2f} |")
    lines.append("\nNoise is the greatest over the smallest p50 of the rounds.")
    return "\n".join(lines) + "\n"


def growth_table(grown: Mapping[str, Mapping[int, float]]) -> str:
    """Show the cost as the work grows, with bars."""
    rows = ["## Growth\n", "| of what | how many | µs | |", "|---|---:|---:|---|"]
    for name, row in grown.items():
        least = min(row.values())
        rows += [f"| {name} | {n:,} | {cost:.1f} | {'█' * round(10 * cost / least)} |" for n, cost in row.items()]
    return "\n".join(rows) + "\n"


def plain_table(name: str, table: Mapping[str, float]) -> str:
    """List figures as they are."""
    rows = [f"## {name.capitalize()}\n", "| figure | value |", "|---|---:|"]
    rows += [f"| {figure} | {value:.3f} |" for figure, value in table.items()]
    return "\n".join(rows) + "\n"
