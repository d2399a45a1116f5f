"""The faults: how each begins, and how it ends without anybody touching the limiter."""

import asyncio
import time

from model.snapshot import Store as Settings
from tests.chaos.load import BUDGET, Load
from tests.ratelimit.servers import ClusterSet, SentinelSet, Server


async def kill(folder):
    """Kill -9, and start again, empty, two seconds later."""
    server = Server(folder).start()
    return await play(one(server), [server], server.kill, lambda: server.start(wait=False), 2)


async def restart(folder):
    """Stop and start at once: all counters are gone before anybody notices."""
    server = Server(folder).start()

    def again():
        server.kill()
        server.start(wait=False)

    return await play(one(server), [server], again, lambda: None, 0)


async def pause(folder):
    """SIGSTOP: connections stand, answers do not come."""
    server = Server(folder).start()
    return await play(one(server), [server], server.pause, server.resume, 2)


async def failover(folder):
    """The master behind Sentinel is killed; a replica is promoted."""
    servers = SentinelSet(folder).start()
    settings = Settings("redis", "sentinel", servers.urls, service=servers.name, budget=BUDGET)
    return await play(settings, servers.servers, servers.master.kill, lambda: None, 0)


async def shard(folder):
    """One master of a cluster is killed; its replica is promoted."""
    servers = ClusterSet(folder, replicas=True).start()
    settings = Settings("redis", "cluster", servers.urls, budget=BUDGET)
    return await play(settings, servers.servers, servers.servers[0].kill, lambda: None, 0)


FAULTS = {"kill": kill, "restart": restart, "pause": pause, "failover": failover, "shard": shard}


def one(server):
    return Settings("redis", "single", (server.url,), budget=BUDGET)


async def play(settings, servers, break_it, mend_it, away, warm=2.0, after=3.0):
    """Load, fault, cure, and what was felt: flat figures."""
    try:
        async with Load(settings) as load:
            await asyncio.sleep(warm)
            baseline = load.baseline = load.felt.slowest
            load.felt.stalls = 0
            broken = time.monotonic()
            break_it()
            await asyncio.sleep(away)
            mend_it()
            mended = time.monotonic()
            recovered = await recovery(load, broken, mended)
            await asyncio.sleep(after)
            return {
                "decisions": load.felt.decisions,
                "stalls": load.felt.stalls,
                "unlimited_intervals": load.unlimited(),
                "recovered": recovered is not None,
                "recovery_seconds": recovered,
                "slowest_ms": 1000 * load.felt.slowest,
                "baseline_slowest_ms": 1000 * baseline,
                "changes_of_mode": len(load.modes),
            }
    finally:
        for server in servers:
            server.stop()


async def recovery(load, broken, mended, patience=20.0):
    """Seconds from the cure until every server is used again; None where that does not come about."""
    while not any(when > broken and mode == "share" for when, mode, _ in load.modes):
        if time.monotonic() - mended > patience:
            return None
        await asyncio.sleep(0.01)
    while load.mode != "shared":
        if time.monotonic() - mended > patience:
            return None
        await asyncio.sleep(0.01)
    return time.monotonic() - mended
