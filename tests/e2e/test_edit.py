"""The document is edited while the gateway runs: the edit takes hold, a broken one does not, no request is lost."""

import asyncio
import contextlib

import aiohttp
import pytest

from demo.cases import ALPHA
from demo.client import Refused, connect
from demo.row import Expect, complaints, describe
from demo.world import Ask, Token
from tests.demo.build import until

ACCOUNT = Ask("GET", "/v3/accounts/current", ALPHA)
BETA = Ask("GET", "/v3/accounts/current", Token("fintech-beta"), "fintech-beta")
FUNDS = Ask("GET", "/v3/funds/current", Token("fintech-alpha", "fundsconfirmations"))


async def settles(world, ask, expect):
    """Wait until a request is answered as expected; what it was answered last is shown where it never is."""
    reply = await world.ask(ask)
    try:
        async with asyncio.timeout(30):
            while complaints(reply, expect):
                await asyncio.sleep(0.1)
                reply = await world.ask(ask)
    except TimeoutError:
        pytest.fail(f"{describe(reply)}: {complaints(reply, expect)}")
    return reply


@contextlib.asynccontextmanager
async def steady(world):
    """Send one request after another, on one kept connection and on new ones; every one must be answered well."""
    await world.token(ALPHA)
    seen = []

    async def kept():
        async with connect(world.endpoint("fintech-alpha")) as connection:
            while True:
                seen.append((await world.ask_on(connection, ACCOUNT)).status)
                await asyncio.sleep(0.2)

    async def fresh():
        while True:
            seen.append((await world.ask(ACCOUNT)).status)
            await asyncio.sleep(0.2)

    tasks = [asyncio.create_task(kept()), asyncio.create_task(fresh())]
    yield seen
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert not [error for error in ended if isinstance(error, Refused | OSError)]


async def snapshot(demo):
    url = f"{demo.settings.url('SIDECAR_ADMIN')}/snapshot"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.json()


async def test_an_edited_limit_holds_from_then_on_and_no_request_is_lost(world, demo):
    processes = demo.pid("sidecar"), demo.pid("envoy")
    async with steady(world) as seen:
        demo.edit(("rate: 600/min burst 2x for 10s", "rate: 1200/min burst 2x for 10s"))
        await settles(world, ACCOUNT, Expect(200, headers={"ratelimit-policy": r'"partner";q=1200;.*'}))
        await asyncio.sleep(0.5)
    assert {200} == set(seen)
    assert processes == (demo.pid("sidecar"), demo.pid("envoy"))


async def test_a_client_that_is_removed_is_unknown_and_one_that_comes_back_is_served(world, demo):
    line = "  fintech-beta: {tier: partner, organisations: [PSDFR-ACPR-100002]}\n"
    demo.edit((line, ""))
    await settles(world, BETA, Expect(401, "client-unknown"))
    demo.edit(("consumers:\n", f"consumers:\n{line}"))
    await settles(world, BETA, Expect(200))


async def test_a_route_that_is_removed_is_gone_from_envoy_too(world, demo):
    await settles(world, FUNDS, Expect(503))
    text = demo.document.read_text()
    async with steady(world) as seen:
        demo.edit((text[text.index("  - id: funds\n") : text.index("  - id: funds-confirm\n")], ""))
        await settles(world, FUNDS, Expect(404, "route-unknown"))
        await asyncio.sleep(0.5)
        demo.edit((demo.document.read_text(), text))
        await settles(world, FUNDS, Expect(503))
    assert {200} == set(seen)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tier: partner, organisations: [PSDIE", "tier: gold, organisations: [PSDIE"),
        ("rank: 2", "rank: many"),
        ("gateway: open-banking", "gateway: [open-banking"),
        ("descriptors: descriptors/open-banking.pb", "descriptors: descriptors/none.pb"),
    ],
    ids=["unknown tier", "wrong type", "no YAML", "missing file"],
)
async def test_a_broken_edit_is_refused_with_its_faults_and_the_old_policy_serves(world, demo, old, new):
    text, before, refused = demo.document.read_text(), await snapshot(demo), demo.log("sidecar").count("edit refused")
    demo.edit((old, new))
    await until(lambda: demo.log("sidecar").count("edit refused") > refused)
    assert (await snapshot(demo))["version"] == before["version"]
    assert (await world.ask(ACCOUNT)).status == 200
    demo.edit((demo.document.read_text(), text))
    await settles(world, ACCOUNT, Expect(200))
