"""The rate limit service from bytes to bytes: with leases, with one Redis call a decision, and deciding nothing.

All three run in one process and one event loop, in turn; Redis is real and next door. `measure` gives decisions a
second, CPU for each of this process, and the time that a decision took while `CALLERS` were under way.
"""

import asyncio
import statistics
import tempfile
import time
from itertools import count
from pathlib import Path

import uvloop

from model.quota import Algorithm
from model.snapshot import Store
from pb.ratelimit_pb2 import RateLimitRequest, RateLimitResponse
from ratelimit.imported import read_rules
from ratelimit.limiter import open_limiter
from ratelimit.service import RateLimitService
from tests.ratelimit.servers import BINARY, Server

CALLERS = 32
KEYS = 100
SECONDS = 0.6
ROUNDS = 5
RULES = """
domain: bench
descriptors:
  - key: client
    rate_limit: {unit: hour, requests_per_unit: 100000000}
"""


def measure() -> dict[str, float]:
    """Run the kinds in turn, several rounds; the medians. Empty where redis-server is not installed."""
    return uvloop.run(measure_kinds()) if BINARY is not None else {}


async def measure_kinds():
    with tempfile.TemporaryDirectory(prefix="wg") as folder:
        server = Server(Path(folder)).start()
        try:
            rounds = {kind: [] for kind in ("noop", "leased", "redis")}
            for _ in range(ROUNDS):
                for kind, runs in rounds.items():
                    runs.append(await measure_kind(kind, server.url))
        finally:
            server.stop()
    return {
        f"limits_{kind}_{figure}": statistics.median(run[figure] for run in runs)
        for kind, runs in rounds.items()
        for figure in runs[0]
    }


async def measure_kind(kind, url):
    if kind == "noop":
        return await load(answer_nothing)
    limiter = open_limiter(Store("redis", "single", (url,), leases=kind == "leased"), time.time_ns)
    await limiter.start()
    rules = read_rules([("bench.yaml", RULES)], algorithm=Algorithm.BUCKET)
    service = RateLimitService(rules, limiter, time.time_ns)
    try:
        await load(service.should_rate_limit, SECONDS / 3)  # every key is cold once
        return await load(service.should_rate_limit)
    finally:
        await limiter.close()


async def answer_nothing(data):
    RateLimitRequest.FromString(data)
    return RateLimitResponse(overall_code=RateLimitResponse.OK).SerializeToString()


async def load(handler, seconds=SECONDS):
    questions = [question(f"client-{number}") for number in range(KEYS)]
    times, number = [], count()
    end = time.perf_counter() + seconds

    async def call():
        while (began := time.perf_counter()) < end:
            await handler(questions[next(number) % KEYS])
            times.append(time.perf_counter() - began)
            await asyncio.sleep(0)

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(call() for _ in range(CALLERS)))
    spent, took = time.process_time() - cpu, time.perf_counter() - began
    times.sort()
    return {
        "rps": len(times) / took,
        "cpu_us": 1e6 * spent / len(times),
        "p50_ms": 1e3 * times[len(times) // 2],
        "p99_ms": 1e3 * times[int(len(times) * 0.99)],
    }


def question(client):
    asked = RateLimitRequest(domain="bench")
    asked.descriptors.add().entries.add(key="client", value=client)
    return asked.SerializeToString()
