"""A second server: h2corn, whose HTTP/2 is native, with gRPC spoken by hand over ASGI.

What a gRPC library would do is done here: content type, method, message framing, compression, deadline and status
(gRPC over HTTP/2, `PROTOCOL-HTTP2.md`). What a handler raises ends as a status, never as an early OK.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, cast

import h2corn

from model.instant import SECOND, Duration
from model.rpc import RpcError
from sidecar.frames import FrameInvalid, Frames, read_timeout, write_frame, write_status
from sidecar.server import (
    DEADLINE_EXCEEDED,
    INTERNAL,
    NO_MESSAGE,
    UNIMPLEMENTED,
    AddressUnusable,
    Method,
    Options,
    Stream,
    Unary,
    claim_socket,
    log,
    socket_path,
)

Event = Mapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

STREAMS = 1024
"""Calls at a time on one connection; Envoy opens another one beyond that."""

_TYPE = (b"content-type", b"application/grpc")
_START: Event = {"type": "http.response.start", "status": 200, "headers": [_TYPE], "trailers": True}
_GOOD: Event = {"type": "http.response.trailers", "headers": [(b"grpc-status", b"0")], "more_trailers": False}


class Gone(Exception):
    """The caller has reset the stream or closed the connection: there is nobody to answer."""


class H2cornServer:
    """An h2corn server over fixed methods, in the running loop. One start and one stop in a lifetime."""

    def __init__(self, methods: Sequence[Method], address: str, options: Options) -> None:
        self._methods = {method.path: method for method in methods}
        self._address = address
        self._options = options
        self._calls: set[asyncio.Task[Any]] = set()
        self._server: h2corn.Server | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Bind and serve; the address in use. Raises AddressUnusable."""
        path = socket_path(self._address)
        if path is not None:
            claim_socket(path)
        self._server = h2corn.Server(cast("Any", self._answer), _configure(self._address, self._options))
        self._serving = asyncio.create_task(self._server.serve(), name="h2corn")
        try:
            await self._server.wait_started()
        except OSError as error:
            with suppress(Exception):
                await self._serving
            raise AddressUnusable(f"{self._address}: {error.strerror or error}") from error
        return self._address if path is not None else self._server.addresses[0]

    async def stop(self, grace: Duration) -> None:
        """Take no more calls, wait for those in flight, cancel what is left of them."""
        if self._server is None or self._serving is None:
            return
        self._server.shutdown()
        await asyncio.wait({self._serving}, timeout=grace / SECOND)
        for call in self._calls:
            call.cancel()
        with suppress(Exception):  # calls that outlived their grace are reported as an error of the server
            await self._serving
        path = socket_path(self._address)
        if path is not None:
            path.unlink(missing_ok=True)

    async def _answer(self, scope: Event, receive: Receive, send: Send) -> None:
        """Answer one request: the ASGI application."""
        if scope["type"] != "http":
            return
        task = asyncio.current_task()
        if task is not None:
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)
        headers = dict(scope["headers"])
        if scope["method"] != "POST" or not headers.get(b"content-type", b"").startswith(b"application/grpc"):
            await _refuse_http(send, 405 if scope["method"] != "POST" else 415)
            return
        call = _Call(send)
        try:
            async with asyncio.timeout(read_timeout(headers.get(b"grpc-timeout"))):
                await self._dispatch(
                    scope["path"], scope["query_string"], headers, _Messages(receive, self._options.max_message), call
                )
        except RpcError as error:
            await call.end(error.code, error.message)
        except FrameInvalid as error:
            await call.end(error.code, str(error))
        except TimeoutError:
            await call.end(DEADLINE_EXCEEDED, "deadline exceeded")
        except Gone:
            return
        except Exception:  # noqa: BLE001 - outermost: whatever is raised ends as INTERNAL, never as OK
            log.exception("%s raised", scope["path"])
            await call.end(INTERNAL, "")

    async def _dispatch(
        self, path: str, query: bytes, headers: Mapping[bytes, bytes], messages: "_Messages", call: "_Call"
    ) -> None:
        method = self._methods.get(path)
        if method is None or query:
            raise RpcError(UNIMPLEMENTED, "unknown method")
        if headers.get(b"grpc-encoding", b"identity") != b"identity":
            raise RpcError(UNIMPLEMENTED, "compressed messages are not taken")
        if method.unary is not None:
            await _call_unary(method.unary, messages, call)
        elif method.stream is not None:
            await _call_stream(method.stream, messages, call)


async def _call_unary(handler: Unary, messages: "_Messages", call: "_Call") -> None:
    await call.finish(await handler(await messages.only()))


async def _call_stream(handler: Stream, messages: "_Messages", call: "_Call") -> None:
    async with aclosing(handler(messages.all())) as replies:  # type: ignore[type-var]  # every handler is a generator
        async for reply in replies:
            await call.write(reply)
    await call.end(0, "")


class _Messages:
    """The messages of one call, as they come."""

    def __init__(self, receive: Receive, largest: int) -> None:
        self._receive = receive
        self._frames = Frames(largest)
        self._ended = False

    async def only(self) -> bytes:
        """Read the one message of a unary call. Raises RpcError, FrameInvalid, Gone."""
        messages: list[bytes] = []
        while not self._ended:
            messages += await self._read()
            if len(messages) > 1:
                raise RpcError(UNIMPLEMENTED, "more than one message in a unary call")
        if not messages or self._frames.partial:
            raise RpcError(INTERNAL, NO_MESSAGE)
        return messages[0]

    async def all(self) -> AsyncIterator[bytes]:
        """Read the messages of a stream. Raises RpcError, FrameInvalid, Gone."""
        while not self._ended:
            for message in await self._read():
                yield message
        if self._frames.partial:
            raise RpcError(INTERNAL, NO_MESSAGE)

    async def _read(self) -> list[bytes]:
        event = await self._receive()
        if event["type"] != "http.request":
            raise Gone
        self._ended = not event.get("more_body", False)
        return self._frames.feed(event.get("body", b""))


class _Call:
    """The answer to one call: headers once, messages, one status at the end."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun = False
        self._ended = False

    async def write(self, message: bytes) -> None:
        """Send one message of a stream."""
        if not self._begun:
            self._begun = True
            await self._send(_START)
        await self._send({"type": "http.response.body", "body": write_frame(message), "more_body": True})

    async def finish(self, message: bytes) -> None:
        """Send the one message of a unary call, and OK."""
        self._begun = self._ended = True
        await self._send(_START)
        await self._send({"type": "http.response.body", "body": write_frame(message), "more_body": False})
        await self._send(_GOOD)

    async def end(self, code: int, message: str) -> None:
        """Send the status, with or without anything before it; nothing where it was sent already."""
        if self._ended:
            return
        self._ended = True
        status = write_status(code, message)
        if not self._begun:  # Trailers-Only
            await self._send({"type": "http.response.start", "status": 200, "headers": [_TYPE, *status]})
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        await self._send({"type": "http.response.trailers", "headers": status, "more_trailers": False})


async def _refuse_http(send: Send, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _configure(address: str, options: Options) -> h2corn.Config:
    path = socket_path(address)
    return h2corn.Config(
        bind=(f"unix:{path}" if path is not None else address,),
        uds_permissions=options.socket_mode if path is not None else None,
        runtime_threads=1,
        loop_threads=1,
        lifespan="off",
        http1=False,
        grpc=True,
        access_log=False,
        log_format="json",
        date_header=False,
        max_concurrent_streams=STREAMS,
        timeout_graceful_shutdown=options.longest_grace / SECOND,
        timeout_keep_alive=0,
    )
