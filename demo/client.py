"""HTTP/1.1 as a partner speaks it, on a raw TLS connection: so that a test can send what no library would.

A connection can begin with a PROXY protocol v2 header (as a network load balancer sends it), present any client
certificate, and send bytes that are not HTTP at all.
"""

import asyncio
import contextlib
import ipaddress
import json
import ssl
import struct
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from demo.settings import EDGE_NAME

Headers = Sequence[tuple[str, str]]

PROXY_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"  # PROXY protocol version 2, section 2.2
PROXY_COMMAND = 0x21  # version 2, PROXY
PROXY_TCP4 = 0x11
LIMIT = 30.0  # seconds for one reply
LINE_LIMIT = 1 << 20


class Refused(Exception):
    """The connection was refused or ended before a reply: a failed handshake, a reset, an early end."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer. `seconds` runs from the last byte sent to the last byte received."""

    status: int
    headers: Headers
    body: bytes
    seconds: float

    def header(self, name: str) -> str | None:
        """Give a header's value, repeated ones joined by ", "; None where it is absent."""
        values = [value for key, value in self.headers if key == name.lower()]
        return ", ".join(values) if values else None

    def json(self) -> Any:
        """Read the body as JSON; None where it is not."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to connect and as whom. `source` is the address that the PROXY header claims; None sends no such header."""

    host: str
    port: int
    context: ssl.SSLContext
    source: str | None = None


def open_context(pki: Path, identity: str | None) -> ssl.SSLContext:
    """Make a TLS 1.3 client context that trusts the edge CA and presents the certificate `identity`, if any."""
    context = ssl.create_default_context(cafile=str(pki / "edge-ca.pem"))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if identity is not None:
        context.load_cert_chain(pki / f"{identity}.pem", pki / f"{identity}.key")
    return context


class Connection:
    """One connection, kept alive between requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, endpoint: Endpoint) -> Self:
        """Connect and shake hands. Raises Refused."""
        try:
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, limit=LINE_LIMIT)
        except OSError as error:
            raise Refused(f"handshake: {error}") from error
        plain = writer.transport
        try:
            if endpoint.source is not None:
                writer.write(write_proxy(endpoint.source, endpoint.port))
            await writer.start_tls(endpoint.context, server_hostname=EDGE_NAME)
        except (OSError, ssl.SSLError) as error:
            plain.abort()
            raise Refused(f"handshake: {error}") from error
        except BaseException:  # cancelled half-way: nobody else holds the connection yet
            plain.abort()
            raise
        return cls(reader, writer)

    async def send(self, method: str, target: str, headers: Headers = (), body: bytes = b"") -> Reply:
        """Send one request and read its reply. Raises Refused."""
        fields = {name.lower() for name, _ in headers}
        lines = [f"{method} {target} HTTP/1.1"]
        if "host" not in fields:
            lines.append(f"Host: {EDGE_NAME}")
        if body and not fields & {"content-length", "transfer-encoding"}:
            lines.append(f"Content-Length: {len(body)}")
        lines += [f"{name}: {value}" for name, value in headers]
        return await self.send_raw("\r\n".join([*lines, "", ""]).encode("latin-1") + body, head=method == "HEAD")

    async def send_raw(self, data: bytes, *, head: bool = False) -> Reply:
        """Send bytes as they are and read one reply. Raises Refused."""
        try:
            self._writer.write(data)
            await self._writer.drain()
            sent = time.perf_counter()
            async with asyncio.timeout(LIMIT):
                status, headers = await read_head(self._reader)
                body = b"" if head else await read_body(self._reader, status, dict(headers))
        except (OSError, ssl.SSLError, asyncio.IncompleteReadError, TimeoutError) as error:
            raise Refused(f"no reply: {error!r}") from error
        return Reply(status, headers, body, time.perf_counter() - sent)

    async def close(self) -> None:
        """Close the connection, whatever state it is in."""
        self._writer.close()
        with contextlib.suppress(OSError, ssl.SSLError):
            await self._writer.wait_closed()


@contextlib.asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Connection]:
    """Open a connection for the length of a block. Raises Refused."""
    connection = await Connection.open(endpoint)
    try:
        yield connection
    finally:
        await connection.close()


def write_proxy(source: str, port: int) -> bytes:
    """Write a PROXY protocol v2 header for a TCP connection from an IPv4 `source`."""
    addresses = ipaddress.IPv4Address(source).packed + ipaddress.IPv4Address("192.0.2.1").packed
    block = addresses + struct.pack("!HH", 40000, port)
    return PROXY_SIGNATURE + struct.pack("!BBH", PROXY_COMMAND, PROXY_TCP4, len(block)) + block


async def read_head(reader: asyncio.StreamReader) -> tuple[int, list[tuple[str, str]]]:
    """Read a status line and the header fields, names in lower case; interim (1xx) answers are passed over."""
    while True:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        if status >= 200:
            pairs = (line.partition(":") for line in lines[1:] if line)
            return status, [(name.lower(), value.strip()) for name, _, value in pairs]


async def read_body(reader: asyncio.StreamReader, status: int, headers: Mapping[str, str]) -> bytes:
    """Read a body by its framing: chunked, counted, none for 204 and 304, else until the end (RFC 9112 section 6.3)."""
    if status in {204, 304}:
        return b""
    if headers.get("transfer-encoding") == "chunked":
        return await _read_chunks(reader)
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"]))
    return await reader.read()


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        body += (await reader.readexactly(size + 2))[:-2]
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return bytes(body)
