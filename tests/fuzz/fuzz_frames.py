"""Random changes to what a client of gRPC sends over HTTP/2: the server lets go of it, and of it alone.

Beside each spoiled connection a good one speaks, in turns, whose secret no spoiled one knows: it must be answered, and
nothing that is said on the other may be taken for it. `python -m tests.fuzz.fuzz_frames [COUNT] [SEED]` runs it alone.
"""

import asyncio
import json
import random
import sys
import time
import traceback

from h2.config import H2Configuration
from h2.connection import H2Connection

from model.rpc import RpcError
from sidecar.frames import write_frame
from sidecar.loop import Connection
from sidecar.server import Method, Options

ASK, TALK = "/wardgate.test.Fuzz/Ask", "/wardgate.test.Fuzz/Talk"
SECRET = b"the secret of the good connection"
FIELDS = ((":method", "POST"), (":scheme", "http"), (":authority", "w"), ("te", "trailers"))
KIND = ("content-type", "application/grpc")
ODD = (b"", b"\x00", b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80" * 30, b"\x00\x00\x00\x00\x00", b"PRI * HTTP/2.0\r\n\r\n")
SIZES = (0, 1, 5, 8, 16_384, 16_385, 2**24 - 1)


class Wire:
    """A transport without a socket: what is written is kept, what is read is given by hand."""

    def __init__(self):
        self.written = bytearray()
        self.closed = False

    def write(self, data):
        self.written += data

    def writelines(self, parts):
        self.written += b"".join(parts)

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True

    abort = close

    def write_eof(self):
        pass

    pause_reading = resume_reading = write_eof


class Guard:
    """Handlers that pass whoever knows the secret, and count whom they passed."""

    def __init__(self):
        self.passed = 0
        methods = (Method(ASK, unary=self.ask), Method(TALK, stream=self.talk))
        self.methods = {method.path.encode(): method for method in methods}

    async def ask(self, data):
        if data != SECRET:
            raise RpcError(7, "not known")
        self.passed += 1
        return data

    async def talk(self, messages):
        async for data in messages:
            yield await self.ask(data)


class Fuzzer:
    """Good conversations, and the ways in which they are spoiled."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.good = [speak(*calls) for calls in CONVERSATIONS]
        self.ways = (self.change_octets, self.change_head, self.drop_frame, self.repeat_frame, self.swap, self.cut)

    def spoil(self):
        """Give the pieces in which a spoiled conversation arrives."""
        frames = list(self.random.choice(self.good))
        for _ in range(self.random.choice((1, 1, 2, 5))):
            self.random.choice(self.ways)(frames)
        data = b"".join(frames)
        cuts = sorted(self.random.randrange(len(data) + 1) for _ in range(self.random.choice((0, 0, 1, 3))))
        return [data[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True)]

    def place(self, frames):
        return self.random.randrange(len(frames))

    def change_octets(self, frames):
        place = self.place(frames)
        frame = bytearray(frames[place])
        start = self.random.randrange(len(frame) + 1)
        new = self.random.choice((*ODD, self.random.randbytes(1), self.random.randbytes(9)))
        frame[start : start + self.random.choice((0, 1, len(new)))] = new
        frames[place] = bytes(frame)

    def change_head(self, frames):
        """Change length, type, flags or stream of a frame; its payload with the length, or not."""
        place = self.place(frames)
        frame = bytearray(frames[place])
        if len(frame) < 9:
            return
        which = self.random.randrange(4)
        if which == 0:
            frame[:3] = self.random.choice(SIZES).to_bytes(3)
            if self.random.random() < 0.5:
                frame[9:] = self.random.randbytes(min(int.from_bytes(frame[:3]), 20_000))
        elif which == 1:
            frame[3] = self.random.choice((*range(11), 255))
        elif which == 2:
            frame[4] ^= 1 << self.random.randrange(8)
        else:
            frame[5:9] = self.random.choice((0, 1, 2, 3, 5, 2**31 - 1, 2**31, 2**32 - 1)).to_bytes(4)
        frames[place] = bytes(frame)

    def drop_frame(self, frames):
        if len(frames) > 1:
            del frames[self.place(frames)]

    def repeat_frame(self, frames):
        place = self.place(frames)
        frames[place:place] = [frames[place]] * self.random.choice((1, 1, 3, 300))

    def swap(self, frames):
        one, other = self.place(frames), self.place(frames)
        frames[one], frames[other] = frames[other], frames[one]

    def cut(self, frames):
        del frames[self.place(frames) + 1 :]
        frames[-1] = frames[-1][: self.random.randrange(len(frames[-1]) + 1)]


def speak(*calls):
    """Give the frames of a client that makes calls; the preface is a part of the first."""
    http2 = H2Connection(H2Configuration(client_side=True))
    http2.initiate_connection()
    frames = [http2.data_to_send()]
    for path, messages, more in calls:
        number = http2.get_next_available_stream_id()
        http2.send_headers(number, ordered(path, more))
        for message in messages:
            data = write_frame(message)
            for start in range(0, len(data), 16_384):
                http2.send_data(number, data[start : start + 16_384])
        if len(messages) < 3:
            http2.end_stream(number)
        else:
            http2.ping(b"12345678")
            http2.increment_flow_control_window(1000)
            http2.reset_stream(number, 8)
        frames += cut_frames(http2.data_to_send())
    return frames


def ordered(path, more):
    return [*FIELDS[:3], (":path", path), *FIELDS[3:], KIND, *more]


def cut_frames(data):
    frames = []
    while data:
        size = 9 + int.from_bytes(data[:3])
        frames.append(data[:size])
        data = data[size:]
    return frames


CONVERSATIONS = (
    ((ASK, [b"guess"], ()),),
    ((ASK, [b"guess"], (("grpc-timeout", "100m"),)), (ASK, [b"x" * 40_000], ()), (TALK, [b"a", b"b"], ())),
    ((TALK, [b"a", b"b", b"c"], ()), (ASK, [], ()), (ASK, [b"guess"], (("grpc-encoding", "gzip"),))),
    ((ASK, [b"guess"], tuple((f"x-{number}", "y" * 700) for number in range(40))), (ASK, [b"x", b"y"], ())),
    tuple((ASK, [b"guess"], ()) for _ in range(20)),
)


def run(count=None, seconds=None, seed=0):
    """Spoil `count` inputs, or as many as fit into `seconds`; give {inputs, escaped, wrongly_allowed}."""
    return asyncio.run(spoil_all(count, seconds, seed))


async def spoil_all(count, seconds, seed):
    fuzzer, figures = Fuzzer(seed), {"inputs": 0, "escaped": 0, "wrongly_allowed": 0}

    def escaped(_loop, context):
        sys.stderr.write(f"{context}\n")
        figures["escaped"] += 1

    asyncio.get_running_loop().set_exception_handler(escaped)
    stop = time.monotonic() + seconds if seconds is not None else None
    while (count is None or figures["inputs"] < count) and (stop is None or time.monotonic() < stop):
        figures["inputs"] += 1
        guard = Guard()
        try:
            await converse(guard, fuzzer.spoil())
        except Exception:  # noqa: BLE001 - any exception at all is what is looked for
            traceback.print_exc()
            figures["escaped"] += 1
        figures["wrongly_allowed"] += guard.passed != 1
    return figures


async def converse(guard, pieces):
    """Hear a spoiled connection and a good one in turns. Raises AssertionError where the good one goes unheard."""
    bad, good = connect(guard), connect(guard)
    words = speak((ASK, [SECRET], ()))
    for number, piece in enumerate(pieces):
        if not bad[1].closed:
            bad[0].data_received(piece)
        await asyncio.sleep(0)
        if number == 0:
            good[0].data_received(b"".join(words[:-1]))
    good[0].data_received(words[-1])
    for _ in range(3):
        await asyncio.sleep(0)
    assert SECRET in good[1].written
    for connection, _ in (bad, good):
        connection.connection_lost(None)
    await asyncio.sleep(0)


def connect(guard):
    connection, wire = Connection(guard.methods, Options(max_message=100_000), set()), Wire()
    connection.connection_made(wire)
    return connection, wire


if __name__ == "__main__":
    amount, first = (int(text) for text in (*sys.argv[1:], "100000", "0")[:2])
    sys.stdout.write(json.dumps(run(count=amount, seed=first)) + "\n")
