"""The reference server: grpc.aio with generic handlers that neither parse nor print messages."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import grpc
import grpc.aio

from model.instant import MILLISECOND, SECOND, Duration
from model.rpc import RpcError
from sidecar.server import (
    INTERNAL,
    NO_MESSAGE,
    AddressUnusable,
    Method,
    Options,
    Stream,
    Unary,
    claim_socket,
    log,
    socket_path,
)

CODES = {code.value[0]: code for code in grpc.StatusCode}


class GrpcioServer:
    """A grpc.aio server over fixed methods. One start and one stop in a lifetime."""

    def __init__(self, methods: Sequence[Method], address: str, options: Options) -> None:
        self._address = address
        self._options = options
        self._server = grpc.aio.server(options=_channel_options(options), handlers=_generic_handlers(methods))

    async def start(self) -> str:
        """Bind and serve; the address in use. Raises AddressUnusable."""
        path = socket_path(self._address)
        if path is not None:
            claim_socket(path)
        try:
            port = self._server.add_insecure_port(f"unix:{path}" if path is not None else self._address)
        except RuntimeError as error:
            raise AddressUnusable(f"{self._address}: cannot be bound") from error
        if path is not None:
            path.chmod(self._options.socket_mode)
        await self._server.start()
        return self._address if path is not None else f"{self._address.rpartition(':')[0]}:{port}"

    async def stop(self, grace: Duration) -> None:
        """GOAWAY to every connection, then wait for the calls in flight."""
        await self._server.stop(grace / SECOND)
        path = socket_path(self._address)
        if path is not None:
            path.unlink(missing_ok=True)


def _channel_options(options: Options) -> list[tuple[str, int]]:
    ping = options.ping_interval // MILLISECOND
    return [
        ("grpc.max_receive_message_length", options.max_message),
        ("grpc.max_send_message_length", options.max_message),
        # gRFC A9: the core spreads the age by a tenth by itself
        ("grpc.max_connection_age_ms", options.age // MILLISECOND),
        ("grpc.max_connection_age_grace_ms", options.age_grace // MILLISECOND),
        # gRFC A8: without these, a peer that pings every 10 s is cut with ENHANCE_YOUR_CALM
        ("grpc.http2.min_ping_interval_without_data_ms", ping),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", ping),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_ping_strikes", 0),
        # two sidecars must never share a port by accident
        ("grpc.so_reuseport", 0),
    ]


def _generic_handlers(methods: Sequence[Method]) -> list[grpc.GenericRpcHandler]:
    services: dict[str, dict[str, grpc.RpcMethodHandler[bytes, bytes]]] = {}
    for method in methods:
        service, _, name = method.path.removeprefix("/").rpartition("/")
        services.setdefault(service, {})[name] = _method_handler(method)
    return [grpc.method_handlers_generic_handler(service, handlers) for service, handlers in services.items()]


def _method_handler(method: Method) -> Any:
    if method.unary is not None:
        # stream_unary, not unary_unary: for a body without one whole message grpc.aio's unary handler is never called
        # and never answers, while a reader sees the end of the stream; on the wire the two are one and the same
        return grpc.stream_unary_rpc_method_handler(_unary_call(method.path, method.unary))
    assert method.stream is not None  # noqa: S101 - the type of Method cannot say "one of the two"
    return grpc.stream_stream_rpc_method_handler(_stream_call(method.path, method.stream))


def _unary_call(path: str, handler: Unary) -> Callable[[object, Any], Awaitable[bytes]]:
    async def call(_requests: object, context: Any) -> bytes:
        try:
            request = await context.read()
            if request is grpc.aio.EOF:
                raise RpcError(INTERNAL, NO_MESSAGE)  # noqa: TRY301 - answered like any other refusal of the call
            answer = handler(request)
            return answer if isinstance(answer, bytes) else await answer
        except RpcError as error:
            context.set_code(CODES[error.code])
            context.set_details(str(error))
        except Exception:  # noqa: BLE001 - outermost: whatever is raised ends as INTERNAL, never as OK
            log.exception("%s raised", path)
            context.set_code(CODES[INTERNAL])
        return b""

    return call


def _stream_call(path: str, handler: Stream) -> Callable[[AsyncIterator[bytes], Any], AsyncIterator[bytes]]:
    async def call(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        try:
            async with contextlib.aclosing(handler(requests)) as replies:  # type: ignore[type-var]
                async for reply in replies:
                    yield reply
        except RpcError as error:
            context.set_code(CODES[error.code])
            context.set_details(str(error))
        except Exception:  # noqa: BLE001 - outermost: whatever is raised ends as INTERNAL, never as OK
            log.exception("%s raised", path)
            context.set_code(CODES[INTERNAL])

    return call
