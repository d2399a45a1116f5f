"""The server in the worker's own loop: connections that reach what its library bears go, and lose no call."""

import asyncio

from sidecar.loop import CALLS, RESETS, LoopServer
from tests.sidecar.build import call, channel, until
from tests.sidecar.echo import SAY, WAIT, Echo, serve


async def test_more_calls_than_one_connection_may_carry_are_all_answered():
    async with serve(LoopServer) as address, channel(address) as made:

        async def ask():
            return [await call(made, SAY, b"x") for _ in range(CALLS // 4)]

        answers = await asyncio.gather(*(ask() for _ in range(8)))
    assert answers == [[b"x"] * (CALLS // 4)] * 8


async def test_more_cancelled_calls_than_one_connection_may_carry_harm_no_other():
    echo = Echo()
    async with serve(LoopServer, echo) as address, channel(address) as made:
        waiting = asyncio.create_task(call(made, WAIT, b"kept"))
        await until(lambda: echo.open == 1)
        for _ in range(3 * RESETS):
            lost = asyncio.create_task(call(made, WAIT, b"lost"))
            await until(lambda: echo.open == 2)
            lost.cancel()
            await until(lambda: echo.open == 1)
        echo.release.set()
        assert await waiting == b"kept"
