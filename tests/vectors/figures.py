"""Where the third-party vectors are, and the figures that their runs leave behind."""

import fcntl
import json
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "build" / "figures" / "vectors.json"
VECTORS = Path(os.environ.get("WARDGATE_VECTORS") or ROOT.parent / "shared" / "vectors")


def need(*parts):
    """Path of a vector file or folder; skips the calling test, in one line, where the vectors are not at hand."""
    path = VECTORS.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"left out: {'/'.join(parts)} (set WARDGATE_VECTORS to the folder of the third-party vectors)")
    return path


def load(*parts):
    """The JSON document of a vector file."""
    return json.loads(need(*parts).read_text(encoding="utf-8"))


def record(name, total, as_expected):
    """Merge NAME_total and NAME_as_expected into the figures; safe with several test processes at once."""
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    with FIGURES.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
        figures |= {f"{name}_total": total, f"{name}_as_expected": as_expected}
        fresh = FIGURES.with_suffix(".fresh")
        fresh.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        fresh.replace(FIGURES)
