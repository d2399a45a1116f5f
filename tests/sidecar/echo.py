"""A service to be abused: it echoes, holds, blocks and breaks, and counts the calls that are under way."""

import asyncio
import time

import grpc
import grpc.aio
import pytest

from sidecar.server import Method, Options
from sidecar.worker import SERVERS
from tests.sidecar.build import serving
from tests.sidecar.raw import frame, raw

SAY = "/wardgate.test.Echo/Say"
REPEAT = "/wardgate.test.Echo/Repeat"
WAIT = "/wardgate.test.Echo/Wait"
BLOCK = "/wardgate.test.Echo/Block"

TOO_LATE = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}

MEBIBYTE = bytes(range(256)) * 4096

EVERY_SERVER = pytest.mark.parametrize("opener", [pytest.param(made, id=name) for name, made in SERVERS.items()])


class Echo:
    """A service whose calls can be held, and which counts those that are under way."""

    def __init__(self):
        self.open = 0
        self.begun = 0
        self.release = asyncio.Event()

    async def say(self, data):
        if data == b"raise":
            raise ZeroDivisionError
        return data

    async def repeat(self, messages):
        async for data in messages:
            if data == b"end":
                return
            yield await self.say(data)

    async def wait(self, data):
        self.open += 1
        self.begun += 1
        try:
            await self.release.wait()
        finally:
            self.open -= 1
        return data

    async def hold(self, messages):
        async for data in messages:
            yield await self.wait(data)

    async def block(self, data):
        time.sleep(0.3)  # noqa: ASYNC251 - this is the abuse
        return data

    def methods(self):
        return [
            Method(SAY, unary=self.say),
            Method(REPEAT, stream=self.repeat),
            Method(WAIT, unary=self.wait),
            Method(WAIT + "Stream", stream=self.hold),
            Method(BLOCK, unary=self.block),
        ]


def serve(opener, echo=None, **options):
    return serving((echo or Echo()).methods(), opener=opener, options=Options(**options))


async def answers(address):
    """Whether a fresh connection gets a right answer."""
    async with raw(address) as client:
        answer = await client.call(SAY, frame(b"still here"))
        return answer.good and answer.body == frame(b"still here")
