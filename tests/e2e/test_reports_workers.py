"""Several workers behind one Envoy: each takes its share of what arrives (bug report G-06)."""

import json

import aiohttp
import pytest

from demo.client import connect
from demo.row import describe
from demo.world import Ask
from tests.e2e.build import Demo

REQUESTS = 60
MOST = 0.7  # the largest share of one of two workers


@pytest.fixture(scope="module")
def demo():
    running = Demo(extra={"WARDGATE_WORKERS": "2"})
    running.edit(("anonymous: {rate: 60/min", "anonymous: {rate: 60000/min"))
    try:
        yield running.start()
    finally:
        running.stop()


async def counts(demo):
    """How many requests Envoy has sent to each worker."""
    url = f"{demo.settings.url('ENVOY_ADMIN')}/clusters?format=json"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        clusters = json.loads(await response.text())["cluster_statuses"]
    (hosts,) = [cluster["host_statuses"] for cluster in clusters if cluster["name"] == "wardgate"]
    totals = [{stat["name"]: stat.get("value", "0") for stat in host["stats"]}["rq_total"] for host in hosts]
    return [int(total) for total in totals]


async def test_both_workers_take_their_share_of_one_connection(world, demo):
    """G-06: Envoy balances calls and not connections, so even one client is spread."""
    before = await counts(demo)
    async with connect(world.endpoint(None, "PUBLIC")) as connection:
        for _ in range(REQUESTS):
            reply = await world.ask_on(connection, Ask("GET", "/v3/open-data/products", identity=None, plane="PUBLIC"))
            assert reply.status == 200, describe(reply)
    taken = [after - earlier for earlier, after in zip(before, await counts(demo), strict=True)]
    assert len(taken) == 2
    assert sum(taken) >= REQUESTS
    assert max(taken) <= MOST * sum(taken), taken
