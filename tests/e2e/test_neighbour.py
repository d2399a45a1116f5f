"""A noisy neighbour harms nobody: one partner at 40,000 requests a minute, two others at half of their limit.

Five seconds by default; `WARDGATE_DRILL=full` makes it the thirty of the drill (make drills).
"""

import asyncio
import os
from collections import Counter

import pytest

from demo.client import connect
from demo.world import Ask, Token

SECONDS = 30.0 if os.environ.get("WARDGATE_DRILL") == "full" else 5.0
NOISE = 40_000 / 60  # requests a second
CALM = 600 / 60 / 2
LANES = 16
TARGET = "/v3/accounts/current"


async def send_evenly(world, ask, rate, lanes):
    """Send at a fixed rate over some kept connections: each request has its own instant, late ones are not dropped."""
    loop = asyncio.get_running_loop()
    began, seen = loop.time(), Counter()

    async def lane(number):
        async with connect(world.endpoint(ask.identity)) as connection:
            for index in range(number, int(SECONDS * rate), lanes):
                await asyncio.sleep(began + index / rate - loop.time())
                seen[(await world.ask_on(connection, ask)).status] += 1

    await asyncio.gather(*map(lane, range(lanes)))
    return seen, loop.time() - began


@pytest.mark.timeout(180)
async def test_two_partners_at_half_their_limit_see_no_429_and_no_503_beside_a_noisy_third(world):
    noisy = Ask("GET", TARGET, Token("fintech-beta"), "fintech-beta")
    calm = [
        Ask("GET", TARGET, Token("fintech-alpha")),
        Ask("GET", "/v3/payments/p", Token("fintech-gamma", "payments"), "fintech-gamma"),
    ]
    for ask in (noisy, *calm):
        await world.token(ask.token)
    results = await asyncio.gather(
        send_evenly(world, noisy, NOISE, LANES), *(send_evenly(world, ask, CALM, 1) for ask in calm)
    )
    (noise, took), *others = results
    for seen, _ in others:
        assert {200: int(SECONDS * CALM)} == seen
    assert {200, 429} == set(noise)
    assert noise[200] <= 1.02 * (100 + 10 * took) + 1
