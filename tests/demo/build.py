"""Builders for the demo's tests: free ports, a JSON getter."""

import asyncio
import inspect
import socket
from contextlib import ExitStack

import aiohttp


def free_port() -> int:
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Find ports that are free now; all are held at once, so that no two are the same."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


async def get_json(url: str):
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.json()


async def until(condition, limit: float = 10) -> None:
    """Wait until a condition, plain or awaitable, holds; for what another process does, which gives no event here."""
    async with asyncio.timeout(limit):
        while True:
            holds = condition()
            if await holds if inspect.isawaitable(holds) else holds:
                return
            await asyncio.sleep(0.02)
