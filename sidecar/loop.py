"""The default server for near peers (decision 62): HTTP/2 in the worker's own loop, by zttp, which does no I/O.

No thread stands between a socket and a handler, and what several calls of one turn of the loop answer leaves in one
write. What a gRPC library would do is done by hand, here and in exchange.py: content type, method, framing,
deadline, status, age of connections (gRFC A9), and a farewell that loses no call (RFC 9113, section 6.8).
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import cast

import zttp

from model.instant import SECOND, Duration
from sidecar.exchange import Exchange
from sidecar.server import AddressUnusable, Method, Options, claim_socket, socket_path

CALLS = 3072
"""Calls on one connection, after which its peer is asked for another one. zttp ends a connection at 4,096 streams (and
announces 128 at a time), so there is room for what is on its way when the peer is asked."""
RESETS = 128
"""Calls that a peer may reset before it is asked so; zttp takes 256 and ends the connection (CVE-2023-44487)."""

_ALL = 2**31 - 1
_OVER = attrgetter("over")
_PING = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00wardgate"
_HUSH = 0.25  # seconds that answers wait for a peer to have read all that was sent before
_FAREWELL = 1.0  # seconds that a peer has to answer the ping of a farewell, and to close


class LoopServer:
    """A server over fixed methods, in the running loop. One start and one stop in a lifetime."""

    def __init__(self, methods: Sequence[Method], address: str, options: Options) -> None:
        self._methods = {method.path.encode(): method for method in methods}
        self._address = address
        self._options = options
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Bind and serve; the address in use. Raises AddressUnusable."""
        loop = asyncio.get_running_loop()
        path = socket_path(self._address)
        try:
            if path is not None:
                claim_socket(path)
                self._server = await loop.create_unix_server(self._accept, path, backlog=1024)
                path.chmod(self._options.socket_mode)
                return self._address
            host, _, port = self._address.rpartition(":")
            self._server = await loop.create_server(self._accept, host.strip("[]"), int(port), backlog=1024)
        except OSError as error:
            raise AddressUnusable(f"{self._address}: {error.strerror or error}") from error
        return f"{host}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self, grace: Duration) -> None:
        """Take no more calls, let those in flight finish within `grace`, then close."""
        if self._server is None:
            return
        self._server.close()
        leaving = [connection.leave() for connection in list(self._connections)]
        if leaving:
            await asyncio.wait(leaving, timeout=grace / SECOND)
        for connection in list(self._connections):
            connection.abort()
        if leaving:
            await asyncio.wait(leaving, timeout=1)
        path = socket_path(self._address)
        if path is not None:
            path.unlink(missing_ok=True)

    def _accept(self) -> "Connection":
        return Connection(self._methods, self._options, self._connections)


class Connection(asyncio.Protocol):
    """One peer: bytes to events, events to exchanges, and what they answer to one write a turn of the loop."""

    def __init__(self, methods: dict[bytes, Method], options: Options, company: "set[Connection]") -> None:
        self._options = options
        self._company = company
        self._methods = methods
        self._loop = asyncio.get_running_loop()
        self._http2 = zttp.Connection(zttp.SERVER, zttp.HTTP2)
        self._exchanges: dict[int, Exchange] = {}
        self._young: list[Exchange] = []
        self._flushing = False
        self._leaving = False
        self._hushed = False
        self._parted = False
        self._silent = False
        self._closed = self._loop.create_future()
        self._timers: list[asyncio.TimerHandle] = []
        self._calls = 0
        self._resets = 0
        self._crowds = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet, and set the hour of leaving."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by type
        self._company.add(self)
        self._http2.initiate_connection()
        self.flush_soon()
        age = self._options.age / SECOND * random.uniform(0.9, 1.1)  # noqa: S311 - spread, not secrecy
        self._after(age, self._retire)

    def data_received(self, data: bytes) -> None:
        """Take what has come to the exchanges it is for, and send what is answered at once."""
        self._flushing = True  # at the end of this
        try:
            self._http2.receive_data(data)
            while self._take(self._http2.next_event()):
                pass
        except zttp.ProtocolError:  # whatever the peer is, it does not speak HTTP/2
            self._flush()
            self._transport.close()
            return
        if all(map(_OVER, self._young)):
            self._flush()
        else:  # their handlers have not had their turn
            self._loop.call_soon(self._flush)

    def pause_writing(self) -> None:
        """Read nothing from a peer that reads nothing."""
        self.crowd()

    def resume_writing(self) -> None:
        """Read on."""
        self.disperse()

    def connection_lost(self, error: Exception | None) -> None:
        """End what was under way: there is nobody to answer."""
        del error
        self._company.discard(self)
        for timer in self._timers:
            timer.cancel()
        for exchange in list(self._exchanges.values()):
            exchange.cancel()
        self._exchanges.clear()
        if not self._closed.done():
            self._closed.set_result(None)

    def leave(self) -> "asyncio.Future[None]":
        """Say goodbye: calls in flight and those that cross it on their way are answered. Done when closed.

        A call that a peer begins because of an answer, and has not written when it reads a goodbye behind that answer,
        is lost (Envoy resets it). So answers wait until the peer has read those before, and then follow the goodbye.
        """
        if not self._leaving:
            self._leaving = True
            self._flush()
            self._hushed = True
            self._transport.write(_PING)
            self._after(_HUSH, self._say_goodbye)
        return self._closed

    def abort(self) -> None:
        """Close at once, and end what is under way."""
        self._transport.abort()

    def crowd(self) -> None:
        """Read nothing more until `disperse` was called as often."""
        self._crowds += 1
        if self._crowds == 1 and not self._transport.is_closing():
            self._transport.pause_reading()

    def disperse(self) -> None:
        """See `crowd`."""
        self._crowds -= 1
        if self._crowds == 0 and not self._transport.is_closing():
            self._transport.resume_reading()

    def stream(self, number: int) -> zttp.Stream:
        """Give the way back for one exchange."""
        return self._http2.stream(number)

    def flush_soon(self) -> None:
        """Send what is written in this turn of the loop at its end."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def forget(self, number: int) -> None:
        """Hold an exchange no longer: it is over."""
        self._exchanges.pop(number, None)
        if self._parted and not self._exchanges:
            self._fall_silent()

    def _take(self, event: zttp.Event) -> bool:
        """Take one event; False where there is none left."""
        if isinstance(event, zttp.Request):
            exchange = Exchange(self, event.stream_id, self._options.max_message)
            self._exchanges[event.stream_id] = exchange
            self._young.append(exchange)
            exchange.begin(event, self._methods)
            self._calls += 1
            if self._calls == CALLS:
                self._retire()
            if event.end_stream:
                exchange.end()
        elif isinstance(event, zttp.Data):
            if (found := self._exchanges.get(event.stream_id)) is not None:
                found.feed(event.data)
        elif isinstance(event, zttp.EndOfMessage):
            if (found := self._exchanges.get(event.stream_id)) is not None:
                found.end()
        else:
            return self._heed(event)
        return True

    def _heed(self, event: zttp.Event) -> bool:
        """Take an event that brings nothing for a handler."""
        if isinstance(event, zttp.RstStream):
            self._reset(event.stream_id)
        elif isinstance(event, zttp.Ping) and event.ack and self._leaving:
            if self._hushed:
                self._say_goodbye()
            else:  # whoever answers this one has read the goodbye before
                self._part()
        elif event is zttp.CONNECTION_CLOSED:
            self._transport.close()
            return False
        return event is not zttp.NEED_DATA

    def _reset(self, number: int) -> None:
        self._resets += 1
        if self._resets == RESETS:
            self._retire()
        if (exchange := self._exchanges.pop(number, None)) is not None:
            exchange.cancel()

    def _flush(self) -> None:
        self._flushing = False
        if self._young:
            for exchange in self._young:
                exchange.watch()  # what did not answer in its first step gets its deadline
            self._young.clear()
        if self._hushed:
            return
        data = self._http2.data_to_send()
        if data and not self._silent and not self._transport.is_closing():
            self._transport.write(data)

    def _retire(self) -> None:
        if self._leaving:
            return
        self.leave()
        self._after(self._options.age_grace / SECOND, self.abort)

    def _say_goodbye(self) -> None:
        if not self._hushed:
            return
        self._hushed = False
        answers = self._http2.data_to_send()
        self._http2.close(0, _ALL)
        if not self._transport.is_closing():
            self._transport.writelines([self._http2.data_to_send(), _PING, answers])
        self._after(_FAREWELL, self._part)

    def _part(self) -> None:
        self._parted = True
        if not self._exchanges:
            self._fall_silent()

    def _fall_silent(self) -> None:
        """Write no more, and read until the peer has closed: a close with bytes unread would take answers back."""
        if self._silent:
            return
        self._flush()
        self._silent = True
        if not self._transport.is_closing():
            self._transport.write_eof()
        self._after(_FAREWELL, self._transport.close)

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._timers.append(self._loop.call_later(seconds, action))
