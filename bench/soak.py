"""`python -m bench.soak`: a sidecar under an even load while tokens, keys, tenants and the policy come and go.

Memory, latency and descriptors at the end are held against those of the second quarter, in which caches have filled;
every answer is held against what it must be. Writes build/figures/soak.json; exit code 1 where something grew.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import grpc
import grpc.aio
import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.direct import CHECK, check_request
from bench.fleet import ROOT
from bench.load import quantile
from bench.reload import Sidecar, open_sidecar
from pb import ext_authz_pb2 as pb
from sidecar.worker import SERVERS

Check = Callable[[bytes], Awaitable[bytes]]

RATE = 250
TENANTS = 40
POOL = 64
"""Tokens in use at one time; one of them is replaced by a new one at every fifth request."""
ROUNDS = 20
"""Policies, and key sets, in the whole run."""
SAMPLES = 40
LIMITS = {"memory_growth": 1.10, "latency_growth": 1.50, "descriptors_added": 8, "wrong_answers": 0}


@dataclass
class World:
    """Who may call, with what: changed by the churn, read by the load."""

    keys: list = field(default_factory=list)
    tenants: list[str] = field(default_factory=list)
    pool: list[bytes] = field(default_factory=list)
    numbers: count = field(default_factory=count)

    def turn_keys(self) -> str:
        """Have a new key beside the one that signs from now on; the set that says so, without the one before."""
        self.keys = [*self.keys, (f"k{next(self.numbers)}", Ed25519PrivateKey.generate())][-2:]
        return json.dumps({"keys": [write_jwk(kid, key) for kid, key in self.keys]})

    def turn_tenants(self) -> str:
        """Let the older half of the tenants go and others come; the document that says so.

        Tokens are for those that stay, so that they hold before and after it comes into force.
        """
        self.tenants = [*self.tenants[-TENANTS // 2 :], *(f"tenant-{next(self.numbers)}" for _ in range(TENANTS // 2))]
        text = (ROOT / "bench" / "gateway.yaml").read_text(encoding="utf-8")
        text = text.replace("    types: [at+jwt]\n", "    types: [at+jwt]\n    refresh: 1s\n    cooldown: 1s\n")
        names = "".join(f"  {name}: {{tier: partner, tenant: {name}}}\n" for name in self.tenants)
        return text.replace("  bench-client: {tier: partner}\n", names)

    def question(self, *, good: bool) -> bytes:
        """Make a Check with a token of its own; one that is not good is signed by nobody."""
        kid, key = self.keys[0]
        now = int(time.time())
        claims = {
            "iss": "https://idp.bench.example",
            "aud": "https://bench.example",
            "sub": f"user-{next(self.numbers)}",
            "client_id": random.choice(self.tenants[: TENANTS // 2]),
            "scope": "accounts",
            "iat": now,
            "exp": now + 3600,
            "jti": str(next(self.numbers)),
        }
        signer = key if good else Ed25519PrivateKey.generate()
        return check_request(jwt.encode(claims, signer, "EdDSA", {"kid": kid, "typ": "at+jwt"}))

    def refill(self) -> None:
        """Replace all tokens that are in use."""
        self.pool = [self.question(good=True) for _ in range(POOL)]


@dataclass(slots=True)
class Sample:
    """What was seen over one stretch of the run: megabytes, milliseconds, descriptors."""

    memory: float
    p50: float
    p99: float
    descriptors: int


def main() -> int:
    """Soak, print, write the figures; 1 where something grew or was answered wrongly."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--server", choices=sorted(SERVERS), default="zttp")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wg") as folder:
        samples, answers = asyncio.run(soak(Path(folder), options.server, options.minutes * 60))
    figures = judge(samples) | answers
    path = ROOT / "build" / "figures" / "soak.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({name: round(value, 3) for name, value in figures.items()}, indent=1) + "\n")
    print(path.read_text(encoding="utf-8"))
    grown = [name for name, limit in LIMITS.items() if figures[name] > limit]
    print(f"soak: {', '.join(grown)} beyond {[LIMITS[name] for name in grown]}" if grown else "soak: nothing grew")
    return 1 if grown else 0


def judge(samples: list[Sample]) -> dict[str, float]:
    """Hold the last quarter against the second one, by medians."""
    quarter = max(1, len(samples) // 4)
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]

    def middle(part, name):
        return statistics.median(getattr(sample, name) for sample in part)

    return {
        "memory_mb": middle(late, "memory"),
        "memory_growth": middle(late, "memory") / middle(early, "memory"),
        "latency_p50_ms": middle(late, "p50"),
        "latency_p99_ms": middle(late, "p99"),
        "latency_growth": middle(late, "p50") / middle(early, "p50"),
        "descriptors": middle(late, "descriptors"),
        "descriptors_added": max(s.descriptors for s in late) - max(s.descriptors for s in early),
    }


async def soak(folder: Path, server: str, seconds: float) -> tuple[list[Sample], dict[str, float]]:
    """Run load and churn side by side; what was seen, and how the answers were."""
    world = World()
    world.turn_keys()
    world.turn_tenants()
    samples: list[Sample] = []
    answers = {"requests": 0, "refused": 0, "wrong_answers": 0, "reloads": 0}
    with open_sidecar(folder, server, world.turn_tenants(), world.turn_keys()) as sidecar:
        world.refill()
        churning = asyncio.create_task(churn(world, sidecar, seconds / ROUNDS, answers))
        async with grpc.aio.insecure_channel(f"unix:{sidecar.socket}") as channel:
            check = channel.unary_unary(CHECK)
            for _ in range(SAMPLES):
                took = await load(world, check, seconds / SAMPLES, answers)
                samples.append(take_sample(sidecar.process.pid, sorted(took)))
                if churning.done():
                    churning.result()
        churning.cancel()
    return samples, answers


async def churn(world: World, sidecar: Sidecar, interval: float, answers: dict[str, float]) -> None:
    """Turn tenants and keys, one after the other, until cancelled."""
    while True:
        await asyncio.sleep(interval)
        keys, text = world.turn_keys(), world.turn_tenants()
        world.refill()
        (sidecar.document.parent / "keys.json").write_text(keys, encoding="utf-8")
        await asyncio.to_thread(sidecar.edit, text)
        answers["reloads"] += 1


async def load(world: World, check: Check, seconds: float, answers: dict[str, float]) -> list[float]:
    """Ask at an even rate; the time of each call in milliseconds. A fifth of the tokens are new, a tenth are forged."""
    took: list[float] = []
    start = time.monotonic()
    calls = set()
    for number in range(max(1, int(seconds * RATE))):
        await asyncio.sleep(max(0.0, start + number / RATE - time.monotonic()))
        forged = number % 10 == 9
        if forged:
            question = world.question(good=False)
        else:
            place = number % POOL
            if number % 5 == 0:
                world.pool[place] = world.question(good=True)
            question = world.pool[place]
        call = asyncio.create_task(ask(check, question, not forged, took, answers))
        calls.add(call)
        call.add_done_callback(calls.discard)
    await asyncio.gather(*calls)
    return took


async def ask(check: Check, question: bytes, good: bool, took: list[float], answers: dict[str, float]) -> None:
    """Ask once and hold the answer against what it must be."""
    before = time.perf_counter()
    answer = pb.CheckResponse.FromString(await check(question))
    took.append((time.perf_counter() - before) * 1000)
    answers["requests"] += 1
    answers["refused"] += answer.status.code != 0
    answers["wrong_answers"] += (answer.status.code == 0) != good


def take_sample(pid: int, took: list[float]) -> Sample:
    """Look at the sidecar and its workers."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    pids = [pid, *map(int, children)]
    pages = sum(int(Path(f"/proc/{each}/statm").read_text(encoding="ascii").split()[1]) for each in pids)
    descriptors = sum(len(list(Path(f"/proc/{each}/fd").iterdir())) for each in pids)
    memory = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return Sample(memory, quantile(took, 0.5), quantile(took, 0.99), descriptors)


def write_jwk(kid: str, key: Ed25519PrivateKey) -> dict[str, str]:
    """Write the public half as a JWK."""
    point = urlsafe_b64encode(key.public_key().public_bytes_raw()).rstrip(b"=").decode()
    return {"kty": "OKP", "crv": "Ed25519", "x": point, "kid": kid, "alg": "EdDSA", "use": "sig"}


if __name__ == "__main__":
    sys.exit(main())
