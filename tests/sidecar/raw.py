"""An HTTP/2 client that does as it is told, also what no gRPC library would do."""

import asyncio
import contextlib
import struct

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)


def frame(message, flag=0):
    """A message in gRPC's framing."""
    return struct.pack(">BI", flag, len(message)) + message


class Answer:
    """What came back on one stream."""

    def __init__(self):
        self.http = None
        self.fields = {}
        self.body = b""
        self.reset = None
        self.done = asyncio.Event()

    @property
    def status(self):
        """The gRPC status; None where none came."""
        return int(self.fields["grpc-status"]) if "grpc-status" in self.fields else None

    @property
    def good(self):
        return self.http == 200 and self.status == 0 and self.reset is None


class Raw:
    """One connection."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.http2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.answers = {}
        self.gone = asyncio.Event()
        self.room = asyncio.Event()
        self.http2.initiate_connection()
        self.flush()

    def flush(self):
        self.writer.write(self.http2.data_to_send())

    def begin(self, path, *, end=False, **fields):
        """Open a stream; field names with `_` for `-`, None leaves a field out."""
        number = self.http2.get_next_available_stream_id()
        values = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "w"}
        values |= {"content-type": "application/grpc", "te": "trailers"}
        values |= {name.replace("_", "-"): value for name, value in fields.items()}
        self.answers[number] = Answer()
        self.http2.send_headers(number, [(n, v) for n, v in values.items() if v is not None], end_stream=end)
        self.flush()
        return number

    async def send(self, number, data, *, end=False, piece=16_384):
        """Send bytes in pieces, as the windows allow."""
        while data:
            room = min(self.http2.local_flow_control_window(number), piece, len(data))
            if room == 0:
                self.room.clear()
                await self.room.wait()
                continue
            self.http2.send_data(number, data[:room])
            data = data[room:]
            self.flush()
        if end:
            self.http2.end_stream(number)
            self.flush()
        await self.writer.drain()

    def cancel(self, number):
        self.http2.reset_stream(number, error_code=8)
        self.flush()

    async def answer(self, number, seconds=10.0):
        async with asyncio.timeout(seconds):
            await self.answers[number].done.wait()
        return self.answers[number]

    async def call(self, path, data=b"", **fields):
        number = self.begin(path, **fields)
        await self.send(number, data, end=True)
        return await self.answer(number)

    async def read(self):
        """Read until the connection ends."""
        try:
            while data := await self.reader.read(65_536):
                for event in self.http2.receive_data(data):
                    self.take(event)
                self.flush()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.gone.set()
            self.room.set()
            for answer in self.answers.values():
                if not answer.done.is_set():
                    answer.reset = "connection"
                    answer.done.set()

    def take(self, event):
        if isinstance(event, WindowUpdated):
            self.room.set()
        answer = self.answers.get(getattr(event, "stream_id", None))
        if isinstance(event, ConnectionTerminated):
            self.gone.set()
        elif answer is None:
            return
        elif isinstance(event, ResponseReceived | TrailersReceived):
            fields = dict(event.headers)
            answer.http = int(fields.pop(":status", answer.http or 0))
            answer.fields |= fields
        elif isinstance(event, DataReceived):
            answer.body += event.data
            self.http2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded | StreamReset):
            if isinstance(event, StreamReset):
                answer.reset = int(event.error_code)
            answer.done.set()


@contextlib.asynccontextmanager
async def raw(address):
    """A connection to "host:port"."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    made = Raw(reader, writer)
    reading = asyncio.create_task(made.read())
    try:
        yield made
    finally:
        writer.close()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
