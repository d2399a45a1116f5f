"""The demo's HTTP client reads every framing and says so when there is no reply."""

import asyncio
import socket

import pytest

from demo.client import Connection, Endpoint, Refused, open_context, read_body, read_head, write_proxy
from demo.pki import ensure_pki
from tests.demo.build import free_port


def reader_of(data):
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return reader


async def read(data):
    reader = reader_of(data)
    status, headers = await read_head(reader)
    return status, dict(headers), await read_body(reader, status, dict(headers))


@pytest.mark.parametrize(
    ("framing", "expected"),
    [
        (b"Content-Length: 3\r\n\r\nabcdef", b"abc"),
        (b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: 1\r\n\r\n", b"abcde"),
        (b"X: y\r\n\r\nuntil the end", b"until the end"),
    ],
)
async def test_bodies_are_read_by_their_framing(framing, expected):
    assert expected == (await read(b"HTTP/1.1 200 OK\r\n" + framing))[2]


async def test_no_content_has_no_body():
    assert (await read(b"HTTP/1.1 204 No Content\r\n\r\nnext"))[2] == b""


async def test_interim_answers_are_passed_over():
    status, headers, _ = await read(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nA: b:c\r\n\r\n")
    assert (status, headers["a"]) == (404, "b:c")


async def test_nobody_listening_is_a_refusal(tmp_path):
    ensure_pki(tmp_path / "pki")
    endpoint = Endpoint("127.0.0.1", free_port(), open_context(tmp_path / "pki", None))
    with pytest.raises(Refused, match="handshake"):
        await Connection.open(endpoint)


def test_the_proxy_header_is_the_one_of_the_specification():
    header = write_proxy("198.51.100.7", 443)
    assert header[:16] == b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c"
    assert socket.inet_aton("198.51.100.7") == header[16:20]
    assert len(header) == 28
