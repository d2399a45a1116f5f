"""gRPC over HTTP/2 by hand (`PROTOCOL-HTTP2.md`): messages, deadline and status.

A message is framed by a compressed flag and four bytes of length.
"""

import re
import struct
from urllib.parse import quote

from model.rpc import RpcError

INTERNAL = 13
RESOURCE_EXHAUSTED = 8

_PREFIX = struct.Struct(">BI")
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_UNITS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


class FrameInvalid(Exception):
    """The bytes are no frames that are taken here; `code` is the gRPC status for it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Frames:
    """Cuts bytes, in whatever pieces they come, into messages of at most `largest` bytes."""

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self._held = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take more bytes; the messages that are whole now. Raises FrameInvalid."""
        if not self._held and len(data) == _PREFIX.size + int.from_bytes(data[1:5]) <= self.largest and not data[0]:
            return [data[_PREFIX.size :]]  # as most come: whole, and alone
        self._held += data
        messages = []
        while len(self._held) >= _PREFIX.size:
            flag, length = _PREFIX.unpack_from(self._held)
            if flag:
                raise FrameInvalid(INTERNAL, "a compressed message without an encoding")
            if length > self.largest:
                raise FrameInvalid(RESOURCE_EXHAUSTED, f"a message of {length} bytes; at most {self.largest} are taken")
            end = _PREFIX.size + length
            if len(self._held) < end:
                break
            messages.append(bytes(self._held[_PREFIX.size : end]))
            del self._held[:end]
        return messages

    @property
    def partial(self) -> bool:
        """Tell whether bytes of a message that is not whole are held."""
        return bool(self._held)


def write_frame(message: bytes) -> bytes:
    """Write one message, not compressed."""
    return _PREFIX.pack(0, len(message)) + message


def read_timeout(value: bytes | None) -> float | None:
    """Read a `grpc-timeout` as seconds; None where there is none. Raises RpcError for one that is malformed."""
    if value is None:
        return None
    match = _TIMEOUT.fullmatch(value)
    if match is None:
        raise RpcError(INTERNAL, "a malformed grpc-timeout")
    return int(match[1]) * _UNITS[match[2]]


def write_status(code: int, message: str) -> list[tuple[bytes, bytes]]:
    """Write the fields of a status; the message percent-encoded, absent where it is empty."""
    status = [(b"grpc-status", str(code).encode())]
    if message:
        status.append((b"grpc-message", quote(message, safe=_PRINTABLE).encode()))
    return status
