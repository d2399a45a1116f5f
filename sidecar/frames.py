"""gRPC's message framing: a compressed flag, four bytes of length, the message (gRPC over HTTP/2, Length-Prefixed)."""

import struct

INTERNAL = 13
RESOURCE_EXHAUSTED = 8

_PREFIX = struct.Struct(">BI")


class FrameInvalid(Exception):
    """The bytes are no frames that are taken here; `code` is the gRPC status for it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Frames:
    """Cuts bytes, in whatever pieces they come, into messages of at most `largest` bytes."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._held = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take more bytes; the messages that are whole now. Raises FrameInvalid."""
        self._held += data
        messages = []
        while len(self._held) >= _PREFIX.size:
            flag, length = _PREFIX.unpack_from(self._held)
            if flag:
                raise FrameInvalid(INTERNAL, "a compressed message without an encoding")
            if length > self._largest:
                raise FrameInvalid(
                    RESOURCE_EXHAUSTED, f"a message of {length} bytes; at most {self._largest} are taken"
                )
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
