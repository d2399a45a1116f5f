"""What a decision costs by kind of credential: seen for the first time, and seen before.

`python -m bench.kinds` prints the table and writes build/figures/kinds.json. One decision is from the bytes of a
CheckRequest to the bytes of its answer, limits in memory, the caller context of the second already minted where one is
shared. An introspection endpoint is asked in neither column: what is measured is what wardgate does with its answer.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

from authz.recent import Recent
from authz.resident import PEERS, TOKENS
from bench.decide import interleave
from tests.authz.build import answered
from tests.fuzz.fuzz_request import Fuzzer

FIGURES = Path(__file__).parent.parent / "build" / "figures" / "kinds.json"


def measure() -> dict[str, float]:
    """Microseconds a decision, KIND_cold_us and KIND_cached_us for each kind."""
    fuzzer = Fuzzer(0)
    with asyncio.Runner() as runner:
        calls: dict[str, Callable[[], object]] = {}
        for kind, data in fuzzer.good.items():
            calls[f"{kind}_cold_us"] = _call(runner, fuzzer, data, cold=True)
            calls[f"{kind}_cached_us"] = _call(runner, fuzzer, data, cold=False)
        return interleave(calls, rounds=50)


def _call(runner: asyncio.Runner, fuzzer: Fuzzer, data: bytes, *, cold: bool) -> Callable[[], object]:
    loop = runner.get_loop()

    def call() -> None:
        fuzzer.reset()  # what is good once is good again
        if cold:
            fuzzer.house.tokens, fuzzer.house.peers = Recent(TOKENS), Recent(PEERS)
            for trust in fuzzer.house.trusts.values():
                trust.standings.clear()
        loop.run_until_complete(answered(fuzzer.service.check(data)))

    return call


def main() -> int:
    """Measure, print, write."""
    figures = measure()
    sys.stdout.write(f"{'kind':14}{'cold µs':>10}{'cached µs':>12}\n")
    for kind in (name.removesuffix("_cold_us") for name in figures if name.endswith("_cold_us")):
        sys.stdout.write(f"{kind:14}{figures[f'{kind}_cold_us']:10.0f}{figures[f'{kind}_cached_us']:12.0f}\n")
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
