"""The line between the parent and a worker: framed messages over a socket pair, with questions and answers."""

import asyncio
import itertools
import pickle
import socket
from collections.abc import Awaitable, Callable
from typing import Any

Handler = Callable[[str, Any], Awaitable[Any]]
"""Takes the kind of a message and its value, gives the answer."""


LARGE = 32 * 1024
"""Bytes from which a message, a whole policy, is read beside the decisions: it takes as long as many of them."""


class LinkClosed(Exception):
    """The other side has gone."""


class Link:
    """One end of the line: `open` it, `serve` until the other side has gone, meanwhile `ask`.

    Values are pickled: both ends are this very program, and nobody else can reach a socket pair.
    """

    def __init__(self, end: socket.socket, handler: Handler) -> None:
        self._end = end
        self._handler = handler
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Take up the socket in the running loop."""
        self._reader, self._writer = await asyncio.open_connection(sock=self._end)

    async def serve(self) -> None:
        """Read and answer messages until the other side has gone; each is answered by a task of its own."""
        reader = self._reader
        if reader is None:
            raise LinkClosed
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                kind, number, value = await _read(await reader.readexactly(size))
                if kind == "answer":
                    self._settle(number, value)
                else:
                    task = asyncio.create_task(self._answer(kind, number, value))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            self.close()

    async def ask(self, kind: str, value: Any = None, patience: float = 5.0) -> Any:
        """Send a message and wait for its answer. Raises LinkClosed, TimeoutError, or what the other side raised."""
        number = next(self._numbers)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send(kind, number, value)
            async with asyncio.timeout(patience):
                answer = await waiting
        finally:
            self._waiting.pop(number, None)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Hang up; whoever waits for an answer is told."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(LinkClosed())

    async def _answer(self, kind: str, number: int, value: Any) -> None:
        try:
            answer = await self._handler(kind, value)
        except Exception as error:  # noqa: BLE001 - it is the asker's to handle
            answer = error
        if self._writer is not None:
            self._send("answer", number, answer)

    def _settle(self, number: int, value: Any) -> None:
        waiting = self._waiting.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(value)

    def _send(self, kind: str, number: int, value: Any) -> None:
        if self._writer is None:
            raise LinkClosed
        data = pickle.dumps((kind, number, value))
        self._writer.write(len(data).to_bytes(4, "big") + data)


async def _read(data: bytes) -> tuple[str, int, Any]:
    read = await asyncio.to_thread(pickle.loads, data) if len(data) > LARGE else pickle.loads(data)  # noqa: S301 - ours
    kind, number, value = read
    return kind, number, value
