"""All fuzzers, COUNT inputs between them, on every core: `python -m tests.fuzz COUNT` (`make fuzz`).

Writes build/figures/fuzz.json: inputs, escaped (an exception, or a status of 5xx) and wrongly_allowed, of all and by
fuzzer. Exits with 1 where anything escaped or passed.
"""

import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.fuzz import fuzz_certificate, fuzz_frames, fuzz_request, fuzz_token

FIGURES = Path(__file__).parents[2] / "build" / "figures" / "fuzz.json"
FUZZERS = {
    "request": (fuzz_request.run, 0.5),
    "token": (fuzz_token.run, 0.25),
    "frames": (fuzz_frames.run, 0.15),
    "certificate": (fuzz_certificate.run, 0.1),
}
PIECE = 25_000
TOTALS = ("inputs", "escaped", "wrongly_allowed")


def main(count):
    """Share the count out, run the pieces, add up."""
    began, figures = time.monotonic(), dict.fromkeys(TOTALS, 0)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for name, seed, running in list(_submit(pool, count)):
            done = running.result()
            for total in TOTALS:
                figures[total] += done[total]
                figures[f"{name}_{total}"] = figures.get(f"{name}_{total}", 0) + done[total]
            sys.stderr.write(f"\r{figures['inputs']} inputs (last: {name}, seed {seed})   ")
    sys.stderr.write(f"\n{time.monotonic() - began:.0f} s\n")
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(figures) + "\n")
    return 1 if figures["escaped"] or figures["wrongly_allowed"] else 0


def _submit(pool, count):
    """Hand out pieces, each with a seed of its own."""
    for name, (run, part) in FUZZERS.items():
        left, seed = round(count * part), 0
        while left > 0:
            seed += 1
            yield name, seed, pool.submit(run, count=min(PIECE, left), seed=seed)
            left -= PIECE


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))
