"""Every selectable server against what clients do wrong, lose, break off or overdo: it answers, refuses, or lets go.

Never an OK where there was no answer: Envoy would take it for leave to let a request pass.
"""

import grpc
import grpc.aio
import pytest

from model.rpc import RpcError
from sidecar.server import Method
from sidecar.worker import open_grpcio
from tests.sidecar.build import call, channel, serving
from tests.sidecar.echo import EVERY_SERVER, MEBIBYTE, REPEAT, SAY, answers, serve
from tests.sidecar.raw import frame, raw

pytestmark = EVERY_SERVER


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
        assert answer.http == 415 or (opener is open_grpcio and answer.body == frame(b"x"))
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
