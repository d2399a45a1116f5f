"""Play every fault, write build/figures/chaos.json, and fail where a promise is broken."""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from tests.chaos.faults import FAULTS
from tests.ratelimit.servers import BINARY, MISSING

FIGURES = Path(__file__).parent.parent.parent / "build" / "figures"


def main():
    if BINARY is None:
        sys.stdout.write(f"{MISSING}\n")
        return 0
    felt = {}
    for name, fault in FAULTS.items():
        with tempfile.TemporaryDirectory() as folder:
            felt[name] = asyncio.run(fault(Path(folder)))
        sys.stdout.write(f"{name}: {json.dumps(felt[name])}\n")
    figures = {
        "stalls": sum(one["stalls"] for one in felt.values()),
        "unlimited_intervals": sum(one["unlimited_intervals"] for one in felt.values()),
        "recoveries": sum(one["recovered"] for one in felt.values()),
        "faults": len(felt),
    }
    figures |= {f"{name}_{key}": value for name, one in felt.items() for key, value in one.items()}
    FIGURES.mkdir(parents=True, exist_ok=True)
    (FIGURES / "chaos.json").write_text(json.dumps(figures, indent=2) + "\n")
    broken = figures["stalls"] or figures["unlimited_intervals"] or figures["recoveries"] < len(felt)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
