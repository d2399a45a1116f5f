"""The server in the worker's own loop: connections that reach what its library bears go, and lose no call."""

import asyncio

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, HeadersFrame, PingFrame

from model.instant import MILLISECOND
from sidecar.loop import CALLS, RESETS, LoopServer
from tests.sidecar.build import call, channel, until
from tests.sidecar.echo import SAY, WAIT, Echo, serve
from tests.sidecar.raw import frame


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


@pytest.mark.parametrize("acknowledges", [True, False], ids=["that answers pings", "that answers none"])
async def test_a_peer_reads_the_goodbye_before_any_answer_it_could_begin_a_call_upon(acknowledges):
    """Envoy resets a call that it begins on an answer when a GOAWAY stands behind that answer in what it has read."""
    echo = Echo()
    async with serve(LoopServer, echo, age=50 * MILLISECOND) as address:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(begun_call(WAIT, b"kept"))
        while not isinstance(await read_frame(reader), PingFrame):
            pass
        assert echo.open == 1
        echo.release.set()
        await until(lambda: echo.open == 0)
        if acknowledges:
            writer.write(PingFrame(0, b"wardgate", flags=["ACK"]).serialize())
        frames = [await read_frame(reader) for _ in range(5)]
        writer.close()

    assert [type(made) for made in frames] == [GoAwayFrame, PingFrame, HeadersFrame, DataFrame, HeadersFrame]
    assert frames[0].last_stream_id == 2**31 - 1
    assert frames[3].data == frame(b"kept")


def begun_call(path, message):
    """What a client sends for one call, the preface before it."""
    http2 = H2Connection(H2Configuration(client_side=True))
    http2.initiate_connection()
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "w"}
    fields |= {"content-type": "application/grpc", "te": "trailers"}
    http2.send_headers(1, list(fields.items()))
    http2.send_data(1, frame(message), end_stream=True)
    return http2.data_to_send()


async def read_frame(reader):
    async with asyncio.timeout(10):
        head = await reader.readexactly(9)
        made, length = Frame.parse_frame_header(memoryview(head))
        made.parse_body(memoryview(await reader.readexactly(length)))
    return made
