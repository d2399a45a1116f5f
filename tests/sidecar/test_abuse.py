"""Every selectable server against what clients do wrong, lose, break off or overdo: it answers, refuses, or lets go.

Never an OK where there was no answer: Envoy would take it for leave to let a request pass.
"""

import asyncio
import gc
import os
import time
from pathlib import Path

import grpc
import grpc.aio
import pytest

from model.rpc import RpcError
from sidecar.grpcio import GrpcioServer
from sidecar.server import Method, Options
from sidecar.worker import SERVERS
from tests.sidecar.build import SECOND, call, channel, serving, until
from tests.sidecar.raw import frame, raw

SAY = "/wardgate.test.Echo/Say"
REPEAT = "/wardgate.test.Echo/Repeat"
WAIT = "/wardgate.test.Echo/Wait"
BLOCK = "/wardgate.test.Echo/Block"

TOO_LATE = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}

MEBIBYTE = bytes(range(256)) * 4096

pytestmark = pytest.mark.parametrize("opener", [pytest.param(made, id=name) for name, made in SERVERS.items()])


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


@pytest.mark.parametrize("piece", [1, 7, 4096, 16_384], ids=lambda piece: f"{piece} at a time")
async def test_a_message_arrives_whole_in_whatever_pieces_it_comes(opener, piece):
    message = MEBIBYTE if piece > 1000 else MEBIBYTE[:300]
    async with serve(opener) as address, raw(address) as client:
        for path in (SAY, REPEAT):
            number = client.begin(path)
            await client.send(number, frame(message), end=True, piece=piece)
            answer = await client.answer(number)
            assert answer.good
            assert answer.body == frame(message)


@pytest.mark.parametrize(
    "body",
    [b"", b"abc", frame(b"whole")[:-1], frame(b"x" * 100)[:20], b"\x00\x00\x00\x00"],
    ids=["no bytes", "three bytes", "one byte short", "a tenth", "no length"],
)
async def test_a_unary_call_without_one_whole_message_fails_and_does_not_hang(opener, body):
    """grpc.aio's own unary handler leaves such a call without an answer for ever."""
    async with serve(opener) as address, raw(address) as client:
        answer = await client.call(SAY, body)
        assert answer.status == 13
        answer = await client.answer(client.begin(SAY, end=True))
        assert answer.status == 13
        assert await answers(address)


async def test_an_empty_message_is_a_message(opener):
    async with serve(opener) as address, raw(address) as client:
        answer = await client.call(SAY, frame(b""))
        assert answer.good
        assert answer.body == frame(b"")


async def test_a_message_that_is_too_long_is_refused_before_it_is_read(opener):
    async with serve(opener, max_message=1000) as address, raw(address) as client:
        assert (await client.call(SAY, frame(b"x" * 1000))).good
        assert (await client.call(SAY, frame(b"x" * 1001))).status == 8
        number = client.begin(SAY)
        await client.send(number, b"\x00\xff\xff\xff\xff")
        assert (await client.answer(number)).status == 8
        assert await answers(address)


async def test_a_compressed_message_is_refused(opener):
    async with serve(opener) as address, raw(address) as client:
        for path in (SAY, REPEAT):
            answer = await client.call(path, frame(b"x", 1))
            assert answer.status == 13
            assert answer.body == b""
        assert await answers(address)


@pytest.mark.parametrize("flag", [2, 254])
async def test_a_flag_that_is_none_is_refused_or_makes_the_message_no_other(opener, flag):
    """grpc's core takes some of them, for the message itself or for an empty one, which no service lets pass."""
    async with serve(opener) as address, raw(address) as client:
        answer = await client.call(SAY, frame(b"x", flag))
        assert answer.status == 13 or answer.body in {frame(b"x"), frame(b"")}
        assert await answers(address)


async def test_an_encoding_that_nobody_knows_is_refused(opener):
    async with serve(opener) as address, raw(address) as client:
        assert (await client.call(SAY, frame(b"x", 1), grpc_encoding="snappy")).status in (12, 13)


@pytest.mark.parametrize(
    "path", ["/", "/wardgate.test.Echo/", "/wardgate.test.Echo/say", "/other/Say", SAY + "/", SAY + "?x"]
)
async def test_a_path_of_no_method_is_unimplemented(opener, path):
    async with serve(opener) as address, raw(address) as client:
        answer = await client.call(path, frame(b"x"))
        assert answer.status == 12
        assert await answers(address)


@pytest.mark.parametrize(
    "fields",
    [
        {"content_type": "application/json"},
        {"content_type": "text/plain"},
        {"content_type": None},
    ],
    ids=str,
)
async def test_another_content_type_is_refused_or_has_no_effect(opener, fields):
    """grpc's core looks at no content type; what is answered is then the message that was sent."""
    async with serve(opener) as address, raw(address) as client:
        answer = await client.call(SAY, frame(b"x"), **fields)
        assert answer.http == 415 or (opener is GrpcioServer and answer.body == frame(b"x"))
        assert await answers(address)


@pytest.mark.parametrize("method", ["GET", "PUT", "OPTIONS"])
async def test_another_http_method_is_not_answered(opener, method):
    async with serve(opener) as address, raw(address) as client:
        assert not (await client.call(SAY, frame(b"x"), **{":method": method})).good
        assert await answers(address)


async def test_a_handler_that_raises_ends_its_call_as_internal(opener):
    """M-02: also after a stream has begun to answer."""
    async with serve(opener) as address, raw(address) as client:
        assert (await client.call(SAY, frame(b"raise"))).status == 13
        assert (await client.call(REPEAT, frame(b"raise"))).status == 13
        late = await client.call(REPEAT, frame(b"first") + frame(b"raise"))
        assert (late.status, late.body) == (13, frame(b"first"))
        assert await answers(address)


async def test_an_error_text_with_odd_characters_arrives_as_it_was(opener):
    text = 'percent % newline \n umlaut ü quote "'

    async def refuse(_data):
        raise RpcError(7, text)

    async with serving([Method(SAY, unary=refuse)], opener=opener) as address, channel(address) as made:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(made, SAY)
        assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.PERMISSION_DENIED, text)


async def test_a_stream_ends_with_its_last_reply(opener):
    """Envoy resets every ext_proc stream that is still open; one that has ended costs it, and us, no reset."""
    async with serve(opener) as address, raw(address) as client:
        number = client.begin(REPEAT)
        await client.send(number, frame(b"a") + frame(b"end"))
        answer = await client.answer(number)
        assert (answer.status, answer.body) == (0, frame(b"a"))


@pytest.mark.parametrize("path", [WAIT, WAIT + "Stream"])
async def test_a_cancelled_call_ends_its_handler(opener, path):
    echo = Echo()
    async with serve(opener, echo) as address, raw(address) as client:
        number = client.begin(path)
        await client.send(number, frame(b"x"), end=path == WAIT)
        await until(lambda: echo.open == 1)
        client.cancel(number)
        await until(lambda: echo.open == 0)
        assert await answers(address)


@pytest.mark.parametrize("path", [WAIT, WAIT + "Stream"])
async def test_a_deadline_ends_the_call_and_its_handler(opener, path):
    """The caller sends `grpc-timeout` and does not reset the stream itself."""
    echo = Echo()
    async with serve(opener, echo) as address, raw(address) as client:
        number = client.begin(path, grpc_timeout="100m")
        await client.send(number, frame(b"x"), end=True)
        answer = await client.answer(number)
        assert answer.status == 4 or answer.reset is not None
        await until(lambda: echo.open == 0)
        assert await answers(address)


@pytest.mark.parametrize("deadline", ["", "soon", "1", "-1S", "999999999S", "1X"])
async def test_a_malformed_deadline_harms_nobody(opener, deadline):
    async with serve(opener) as address, raw(address) as client:
        answer = await client.call(SAY, frame(b"x"), grpc_timeout=deadline)
        assert answer.status is not None or answer.reset is not None
        assert await answers(address)


async def test_a_connection_lost_with_two_hundred_open_streams_leaves_none_behind(opener):
    echo = Echo()
    async with serve(opener, echo) as address:
        for _ in range(2):
            async with raw(address) as client:
                for _ in range(100):
                    for path in (WAIT, WAIT + "Stream"):
                        number = client.begin(path)
                        await client.send(number, frame(b"x"), end=path == WAIT)
                await until(lambda: echo.open == 200)
                client.writer.transport.abort()
            await until(lambda: echo.open == 0)
        assert await answers(address)


async def test_a_storm_of_resets_harms_nobody_else(opener):
    """Rapid reset (CVE-2023-44487): the storm's own connection may be cut, others are served as before."""
    echo = Echo()
    async with serve(opener, echo) as address, raw(address) as quiet:
        for _ in range(3):
            async with raw(address) as client:
                for _ in range(500):
                    if client.gone.is_set():
                        break
                    number = client.begin(WAIT)
                    await client.send(number, frame(b"x"), end=True)
                    client.cancel(number)
        # while a thousand calls wait to be begun, grpc's core refuses some of the others too (RESOURCE_EXHAUSTED)
        while not (answer := await quiet.call(SAY, frame(b"x"))).good:
            assert answer.status == 8
        await until(lambda: echo.open == 0)
        assert await answers(address)


async def test_bytes_that_are_no_http2_harm_nobody(opener):
    async with serve(opener) as address:
        host, _, port = address.rpartition(":")
        for garbage in (
            b"\x00" * 100,
            b"GET / HTTP/1.1\r\nhost: w\r\n\r\n",
            os.urandom(1000),
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 50,
        ):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(garbage)
            await writer.drain()
            writer.close()
        assert await answers(address)


async def test_a_blocked_loop_delays_calls_and_loses_none(opener):
    async with serve(opener) as address, channel(address) as made:
        calls = [call(made, BLOCK if number == 0 else SAY, str(number).encode()) for number in range(50)]
        assert await asyncio.gather(*calls) == [str(number).encode() for number in range(50)]


async def test_a_drain_under_load_answers_what_it_took(opener):
    """G-04, G-05: a call is answered or, where it came too late, refused as such; never anything else."""
    server = opener(Echo().methods(), "127.0.0.1:0", Options())
    address = await server.start()
    outcomes = []

    async def ask(made):
        while True:
            try:
                outcomes.append(await call(made, SAY, b"x"))
            except grpc.aio.AioRpcError as error:
                outcomes.append(error.code())
                return

    async with channel(address) as made:
        asking = [asyncio.create_task(ask(made)) for _ in range(8)]
        await until(lambda: len(outcomes) > 100)
        async with asyncio.timeout(10):
            await server.stop(2 * SECOND)
            await asyncio.gather(*asking)
    assert set(outcomes) <= {b"x", *TOO_LATE}
    assert sum(outcome in TOO_LATE for outcome in outcomes) == 8


def held():
    """How many tasks, file descriptors and objects there are."""
    gc.collect()
    return len(asyncio.all_tasks()), len(list(Path("/proc/self/fd").iterdir())), len(gc.get_objects())


async def test_ten_thousand_calls_leave_nothing_behind(opener):
    """Tasks, file descriptors and objects are as many as before."""
    async with serve(opener) as address:

        async def ask(times):
            async with raw(address) as client:
                for _ in range(times):
                    number = client.begin(SAY)
                    await client.send(number, frame(b"x" * 1000), end=True)
                    assert (await client.answer(number)).good
                    del client.answers[number]

        await ask(500)
        before = held()
        await asyncio.gather(*(ask(1250) for _ in range(8)))
        await asyncio.sleep(0.1)
        after = held()
        assert after[0] <= before[0] + 1
        assert after[1] <= before[1] + 2
        assert after[2] <= before[2] * 1.02 + 500
