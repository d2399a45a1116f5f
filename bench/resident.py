"""What much resident state costs: API keys and revocations, in memory, in time to load, and at each look-up.

`python -m bench.resident` prints the table and writes build/figures/resident.json.
"""

import asyncio
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from authz.apikey import hash_key, judge_key
from authz.denylist import Denylist, Entry, Subject, read_list
from authz.keytable import KeyTable, index_keys
from bench.decide import interleave
from sidecar.listing import Listing
from sidecar.shelf import Shelf

Table = TypeVar("Table")

KEYS = (10, 1_000, 100_000, 500_000)
REVOKED = (10, 1_000, 100_000)
FIGURES = Path(__file__).parent.parent / "build" / "figures" / "resident.json"
NOW = 1_800_000_000_000_000_000
BEAT = 0.001
"""Seconds between two beats of the event loop whose pauses are measured."""


def measure(keys: tuple[int, ...] = KEYS, revoked: tuple[int, ...] = REVOKED) -> dict[str, float]:
    """Load so many and look up: seconds, MB, milliseconds of the longest pause of the loop, microseconds a look-up."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="wardgate-") as folder:
        tables = {count: _load(index_keys, write_keys(Path(folder), count), f"keys_{count}", figures) for count in keys}
        _share(Path(folder), max(keys), figures)
        lists = {
            count: _load(read_list, write_list(Path(folder), count), f"revoked_{count}", figures) for count in revoked
        }
    _note("keys", interleave({count: _judging(table, count) for count, table in tables.items()}), figures)
    _note("revoked", interleave({count: _asking(listed, count) for count, listed in lists.items()}), figures)
    return figures


def write_keys(folder: Path, count: int) -> Path:
    """Write a key file of so many records."""
    path = folder / f"keys-{count}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            record = {"id": f"key{number}", "sha256": hash_key(f"key{number}.secret"), "client_id": f"client-{number}"}
            file.write(json.dumps({**record, "scopes": ["accounts"]}) + "\n")
    return path


def write_list(folder: Path, count: int) -> Path:
    """Write a denylist of so many tokens."""
    path = folder / f"revoked-{count}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            file.write(Entry(Subject.TOKEN, f"jti-{number}", "https://id.example", expires=NOW).line() + "\n")
    return path


def _load(parse: Callable[..., Table], path: Path, name: str, figures: dict[str, float]) -> Table:
    gc.collect()
    memory, began = _memory(), time.perf_counter()
    table, pause = asyncio.run(_load_beside(parse, path))
    figures[f"{name}_load_s"] = time.perf_counter() - began
    figures[f"{name}_mb"] = max(0.0, _memory() - memory)
    figures[f"{name}_loop_pause_ms"] = pause * 1000
    return table


def _share(folder: Path, count: int, figures: dict[str, float]) -> None:
    """What a second worker needs for the table that a first one has written down."""
    path = folder / f"keys-{count}.jsonl"
    shelf = Shelf(folder / "state", 0)
    shelf.take([path], lambda: index_keys(path.read_bytes().splitlines()))
    gc.collect()
    memory, began = _memory(anonymous=True), time.perf_counter()
    table = shelf.take([path], index_keys)
    figures[f"keys_{count}_mapped_load_s"] = time.perf_counter() - began
    figures[f"keys_{count}_mapped_mb"] = max(0.0, _memory(anonymous=True) - memory)
    if len(table) != count:
        raise RuntimeError("the kept table is not that of the file")


async def _load_beside(parse: Callable[..., Table], path: Path) -> tuple[Table, float]:
    """Load in the background as a sidecar does, while the event loop beats; the table and the longest pause."""
    loading = asyncio.ensure_future(Listing(parse).load([path]))
    longest, last = 0.0, time.perf_counter()
    while not loading.done():
        await asyncio.sleep(BEAT)
        now = time.perf_counter()
        longest, last = max(longest, now - last - BEAT), now
    return (await loading)[0], longest


def _judging(table: KeyTable, count: int) -> Callable[[], object]:
    key = f"key{count // 2}.secret"
    return lambda: judge_key(key, table, NOW)


def _asking(listed: Denylist, count: int) -> Callable[[], object]:
    name = f"jti-{count // 2}"
    return lambda: listed.revokes(Subject.TOKEN, "https://id.example", name, None, NOW)


def _note(name: str, costs: dict[int, float], figures: dict[str, float]) -> None:
    figures.update({f"{name}_{count}_us": cost for count, cost in costs.items()})
    figures[f"{name}_growth"] = costs[max(costs)] / costs[min(costs)]


def _memory(*, anonymous: bool = False) -> float:
    """Measure what the process holds, in MB; without what is mapped from files where only `anonymous` is asked for."""
    name = "RssAnon:" if anonymous else "VmRSS:"
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024 / 1e6


def main() -> int:
    """Measure, print, write."""
    figures = measure()
    for name, value in figures.items():
        sys.stdout.write(f"{name:32}{value:12.2f}\n")
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
