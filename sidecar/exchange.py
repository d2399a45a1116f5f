"""One gRPC call over an HTTP/2 stream that somebody else frames: fields, messages, deadline, handler, status."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import aclosing, suppress
from typing import Any, Protocol

import zttp

from model.rpc import RpcError
from sidecar.frames import FrameInvalid, Frames, read_timeout, write_frame, write_status
from sidecar.server import DEADLINE_EXCEEDED, INTERNAL, NO_MESSAGE, UNIMPLEMENTED, Method, Stream, Unary, log

_TYPE = (b"content-type", b"application/grpc")
_HEAD = [_TYPE]
_GOOD = [(b"grpc-status", b"0")]
_NO_ERROR = 0


class Host(Protocol):
    """What an exchange needs of its connection."""

    def stream(self, number: int) -> zttp.Stream:
        """Give the way back."""
        ...

    def flush_soon(self) -> None:
        """Send what is written at the end of this turn of the loop."""
        ...

    def forget(self, number: int) -> None:
        """Hold an exchange no longer: it is over."""
        ...

    def crowd(self) -> None:
        """Read nothing more until `disperse`."""
        ...

    def disperse(self) -> None:
        """Read on."""
        ...


class Exchange:
    """One call, from its header fields to its status. The way back is written once; what comes later is dropped."""

    __slots__ = (
        "_begun",
        "_frames",
        "_host",
        "_inbox",
        "_message",
        "_method",
        "_number",
        "_open",
        "_over",
        "_reply_to_come",
        "_task",
        "_timeout",
        "_timer",
    )

    def __init__(self, host: Host, number: int, largest: int) -> None:
        self._host = host
        self._number = number
        self._frames = Frames(largest)
        self._method: Method | None = None
        self._message: bytes | None = None
        self._inbox: Inbox | None = None
        self._task: asyncio.Task[None] | None = None
        self._reply_to_come: Coroutine[Any, Any, bytes] | None = None  # of a task that has not begun
        self._timeout: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._open = True  # the caller may send more
        self._begun = False  # the head of the answer is written
        self._over = False  # its end is written, or nobody waits for it

    def begin(self, request: zttp.Request, methods: Mapping[bytes, Method]) -> None:
        """Look at the header fields. The handler of a stream starts at once, a unary one with its message."""
        headers = dict(request.headers)
        if request.method != b"POST":
            self._refuse_http(405)
        elif not headers.get(b"content-type", b"").startswith(b"application/grpc"):
            self._refuse_http(415)
        elif (method := methods.get(request.target)) is None:
            self._end(UNIMPLEMENTED, "unknown method")
        elif headers.get(b"grpc-encoding", b"identity") != b"identity":
            self._end(UNIMPLEMENTED, "compressed messages are not taken")
        else:
            self._accept(method, headers.get(b"grpc-timeout"))

    def feed(self, data: bytes) -> None:
        """Take bytes of the caller's messages."""
        if self._over:
            return
        try:
            messages = self._frames.feed(data)
        except FrameInvalid as error:
            self._end(error.code, str(error))
            return
        if self._inbox is not None:
            self._inbox.put(messages)
        elif len(messages) + (self._message is not None) > 1:
            self._end(UNIMPLEMENTED, "more than one message in a unary call")
        elif messages:
            self._message = messages[0]

    def end(self) -> None:
        """Know that the caller has said everything."""
        self._open = False
        if self._over:
            return
        if self._frames.partial or (self._inbox is None and self._message is None):
            self._end(INTERNAL, NO_MESSAGE)
        elif self._inbox is not None:
            self._inbox.end()
        elif self._method is not None and self._method.unary is not None and self._message is not None:
            self._ask(self._method.unary, self._message)

    @property
    def over(self) -> bool:
        """Tell whether it has its answer."""
        return self._over

    def watch(self) -> None:
        """Set the deadline of a call that did not end at once."""
        if self._timeout is not None and not self._over:
            self._timer = asyncio.get_running_loop().call_later(self._timeout, self._expire)

    def cancel(self) -> None:
        """End without an answer: the caller has gone."""
        self._over = True
        self._let_go()

    def _accept(self, method: Method, timeout: bytes | None) -> None:
        try:
            self._timeout = read_timeout(timeout)
        except RpcError as error:
            self._end(error.code, error.message)
            return
        self._method = method
        if method.stream is not None:
            self._inbox = Inbox(self._host, self._frames.largest)
            stream = self._call_stream(method.stream, self._inbox)
            self._task = asyncio.get_running_loop().create_task(stream)

    def _ask(self, handler: Unary, message: bytes) -> None:
        """Have a message answered: now, or by a task where the handler has to wait."""
        try:
            reply = handler(message)
        except Exception as error:  # noqa: BLE001 - see `_fail`
            self._fail(error)
            return
        if isinstance(reply, bytes):
            self._reply(reply)
        else:
            self._reply_to_come = reply
            self._task = asyncio.get_running_loop().create_task(self._await_reply(reply))

    async def _await_reply(self, reply: Coroutine[Any, Any, bytes]) -> None:
        self._reply_to_come = None
        try:
            self._reply(await reply)
        except Exception as error:  # noqa: BLE001 - see `_fail`
            self._fail(error)

    async def _call_stream(self, handler: Stream, inbox: "Inbox") -> None:
        try:
            async with aclosing(handler(inbox.messages())) as replies:  # type: ignore[type-var]  # they are generators
                async for reply in replies:
                    self._write(reply)
            self._end(0, "")
        except Exception as error:  # noqa: BLE001 - see `_fail`
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Outermost: whatever is raised and was not meant ends as INTERNAL, never as OK."""
        if isinstance(error, RpcError):
            self._end(error.code, error.message)
            return
        log.error("%s raised", self._method.path if self._method is not None else "", exc_info=error)
        self._end(INTERNAL, "")

    def _reply(self, reply: bytes) -> None:
        """Write the answer of a unary call, whole."""
        if self._over:
            return
        self._over = True
        with suppress(zttp.LocalProtocolError):  # reset in the meantime
            stream = self._host.stream(self._number)
            stream.send_response(200, _HEAD)
            stream.send_data(write_frame(reply))
            stream.end_message(_GOOD)
        self._finish()

    def _write(self, message: bytes) -> None:
        if self._over:
            return
        with suppress(zttp.LocalProtocolError):
            stream = self._host.stream(self._number)
            if not self._begun:
                self._begun = True
                stream.send_response(200, _HEAD)
            stream.send_data(write_frame(message))
        self._host.flush_soon()

    def _end(self, code: int, message: str) -> None:
        """Write the status, with or without anything before it; nothing where it was written already."""
        if self._over:
            return
        self._over = True
        status = write_status(code, message)
        with suppress(zttp.LocalProtocolError):
            stream = self._host.stream(self._number)
            if self._begun:
                stream.end_message(status)
            else:  # Trailers-Only
                stream.send_response(200, [_TYPE, *status], end_stream=True)
            if self._open:
                stream.reset(_NO_ERROR)  # RFC 9113, section 8.1: nothing more of the request is wanted
        self._finish()

    def _refuse_http(self, status: int) -> None:
        self._over = True
        with suppress(zttp.LocalProtocolError):
            stream = self._host.stream(self._number)
            stream.send_response(status, [], end_stream=True)
            if self._open:
                stream.reset(_NO_ERROR)
        self._finish()

    def _expire(self) -> None:
        self._end(DEADLINE_EXCEEDED, "deadline exceeded")

    def _finish(self) -> None:
        self._let_go()
        self._host.flush_soon()
        self._host.forget(self._number)

    def _let_go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._inbox is not None:
            self._inbox.drop()
        if self._task is not None and not self._task.done() and self._task is not asyncio.current_task():
            self._task.cancel()
        if self._reply_to_come is not None:
            self._reply_to_come.close()


class Inbox:
    """The messages of a stream that its handler has not taken yet; beyond `most` bytes the connection waits."""

    def __init__(self, host: Host, most: int) -> None:
        self._host = host
        self._most = most
        self._held: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._crowding = False
        self._waiter: asyncio.Future[None] | None = None

    def put(self, messages: list[bytes]) -> None:
        """Keep messages for the handler."""
        self._held += messages
        self._size += sum(map(len, messages))
        if self._size > self._most and not self._crowding:
            self._crowding = True
            self._host.crowd()
        self._wake()

    def end(self) -> None:
        """Know that nothing more will come."""
        self._ended = True
        self._wake()

    def drop(self) -> None:
        """Keep nothing more."""
        self._held.clear()
        self._size = 0
        self._disperse()

    async def messages(self) -> AsyncIterator[bytes]:
        """Give the messages as they come, until the caller ends."""
        while True:
            while self._held:
                message = self._held.popleft()
                self._size -= len(message)
                if self._size <= self._most:
                    self._disperse()
                yield message
            if self._ended:
                return
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _disperse(self) -> None:
        if self._crowding:
            self._crowding = False
            self._host.disperse()
