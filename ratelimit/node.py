"""One Redis server: one connection, one call in flight, and a breaker.

Spends that arrive while a call is in flight share the next one. Nobody waits longer than the budget and nothing is
sent twice; while an answer is overdue, nobody begins to wait. Any failure, whatever its kind (refused, reset, silent,
loading, read-only, out of memory, busy, wrong password), drops the connection and opens the breaker: from then on `ask`
fails at once, and one probe at a time looks for the server until it takes a write again.

A caller that is cancelled abandons its own future only. The call itself belongs to the node's task, and a connection
on which an answer is still due is never used again: so no caller can be handed the answer of another.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from hashlib import sha1
from typing import cast

from redis.asyncio import Connection
from redis.exceptions import NoScriptError, RedisError, ResponseError

from model.instant import SECOND, Duration, Instant
from model.quota import Outcome
from ratelimit.epoch import SETTLE, Epochs
from ratelimit.script import SOURCE, Group, Naming, decode, encode
from ratelimit.store import Drawn, StoreAway

DIGEST = sha1(SOURCE.encode(), usedforsecurity=False).hexdigest()  # how EVALSHA names a script

FIRST_PROBE = 0.01
LAST_PROBE = 0.5
PROBE_TIMEOUT = 1.0
PATIENCE = 0.05
"""Seconds without an answer after which a server is taken to be away. Nobody waits so long: see the budget."""
BATCH = 256

Answer = list[Outcome] | list[Drawn]
Opener = Callable[[], Awaitable[Connection]]
Waiting = tuple[Group, "asyncio.Future[Answer]", float]


GRACE = 3
"""Turns of the loop past the deadline: where we were late ourselves, an answer that is already here is still read."""


class Alarm:
    """Calls `ring` at the deadline, but not before the loop had its turns of grace."""

    def __init__(self, deadline: float, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.Handle = self._loop.call_at(deadline, self._turn, GRACE)

    def cancel(self) -> None:
        """Ring no more."""
        self._handle.cancel()

    def _turn(self, turns: int) -> None:
        if turns:
            self._handle = self._loop.call_soon(self._turn, turns - 1)
        else:
            self._ring()


class Redirected(StoreAway):
    """The counter lives on another server of the cluster by now."""


class Node:
    """A server that `opener` knows how to connect to.

    `joined` True lets one call carry the counters of many principals (any server but a cluster's). `probe_key` is a key
    that lives on the server. `changed` is told, with a cause, when the server goes away ("" when it is back). `epochs`
    remembers when the servers' data began.
    """

    def __init__(
        self,
        opener: Opener,
        naming: Naming,
        budget: Duration,
        changed: Callable[[str], None],
        *,
        joined: bool = True,
        probe_key: str = "",
        epochs: Epochs | None = None,
    ) -> None:
        self.away = True
        self.calls = 0
        self._late = False
        self._opener = opener
        self._naming = naming
        self._budget = budget / SECOND
        self._changed = changed
        self._joined = joined
        self._probe_key = probe_key or f"{naming.prefix}:probe"
        self._epochs = epochs or Epochs()
        self._settles = 0.0
        self._connection: Connection | None = None
        self._queue: list[Waiting] = []
        self._pump: asyncio.Task[None] | None = None
        self._probe: asyncio.Task[None] | None = None
        self.clock: Callable[[], Instant] | None = None  # None: the server's own

    @property
    def lost(self) -> Duration:
        """How long ago the server was found without its data, while the instances tell it what they know; else 0."""
        left = self._settles - asyncio.get_running_loop().time() if self._settles else 0
        return max(SETTLE - int(left * SECOND), 1) if left > 0 else 0

    async def start(self, patience: float) -> None:
        """Look for the server, waiting for it at most `patience` seconds; it is looked for until `close`."""
        self._search("not connected yet")
        probe = self._probe
        if probe is not None:
            await asyncio.wait((probe,), timeout=patience)

    async def close(self) -> None:
        """Drop the connection and fail whoever still waits."""
        for task in (self._probe, self._pump):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        self._probe = self._pump = None
        self._fail_waiting("closed")
        await self._disconnect()

    async def ask(self, group: Group) -> Answer:
        """Put a group to the server; raises StoreAway at once, or within the budget (a draw: within the patience)."""
        if self.away or (self._late and group.verb != "draw"):
            raise StoreAway("away" if self.away else "late")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        bound = PATIENCE if group.verb == "draw" else self._budget
        self._queue.append((group, future, loop.time() + bound))
        if self._pump is None:
            self._pump = loop.create_task(self._run())
        return await future

    async def _run(self) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue[:BATCH], self._queue[BATCH:]
                await self._serve(batch)
        finally:
            self._pump = None

    async def _serve(self, batch: list[Waiting]) -> None:
        """One call for everybody in the batch, who is answered or failed when it returns."""
        loop = asyncio.get_running_loop()
        overdue = min(loop.time() + self._budget, *(deadline for _, _, deadline in batch))
        alarm = Alarm(overdue, lambda: self._give_up(batch))
        try:
            async with asyncio.timeout(max(PATIENCE, self._budget)):
                answers = await self._call([group for group, _, _ in batch])
        except asyncio.CancelledError:
            for _, future, _ in batch:
                settle(future, StoreAway("closed"))
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may be left waiting for it
            cause = "no answer" if isinstance(error, TimeoutError) else name_cause(error)
            for _, future, _ in batch:
                settle(future, StoreAway(cause))
            await self._lose(cause)
        else:
            for (_, future, _), answer in zip(batch, answers, strict=True):
                settle(future, answer)
        finally:
            alarm.cancel()
            self._late = False

    def _give_up(self, batch: list[Waiting]) -> None:
        """Free all whom a decision waits for, and let nobody else begin to: the budget of one of them is spent."""
        self._late = True
        for group, future, _ in (*batch, *self._queue):
            if group.verb != "draw":
                settle(future, StoreAway("no answer within the budget"))
        self._queue = [waiting for waiting in self._queue if not waiting[1].done()]

    async def _call(self, groups: Sequence[Group]) -> list[Answer | Redirected]:
        connection = self._connection
        if connection is None or not connection.is_connected:
            raise StoreAway("not connected")
        parcels = [list(groups)] if self._joined else [[group] for group in groups]
        packed = [encode(parcel, self._naming, self.clock and self.clock()) for parcel in parcels]
        self.calls += 1
        replies = await exchange(connection, [write_call("EVALSHA", DIGEST, *one) for one in packed])
        forgotten = [index for index, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if forgotten:
            again = [write_call("EVAL", SOURCE, *packed[index]) for index in forgotten]
            for index, reply in zip(forgotten, await exchange(connection, again), strict=True):
                replies[index] = reply
        answers: list[Answer | Redirected] = []
        for parcel, reply in zip(parcels, replies, strict=True):
            answers += read_reply(parcel, reply)
        return answers

    async def _lose(self, cause: str) -> None:
        self._fail_waiting(cause)
        if not self.away:
            self.away = True
            self._changed(cause)
        await self._disconnect()
        self._search(cause)

    def _fail_waiting(self, cause: str) -> None:
        queue, self._queue = self._queue, []
        for _, future, _ in queue:
            settle(future, StoreAway(cause))

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(OSError, RedisError, TimeoutError):
                await connection.disconnect(nowait=True)

    def _search(self, cause: str) -> None:
        if self._probe is None:
            self._probe = asyncio.get_running_loop().create_task(self._look_for(cause))

    async def _look_for(self, told: str) -> None:
        """Try to connect and write, one attempt at a time, further and further apart."""
        delay = 0.0
        while True:
            await asyncio.sleep(delay)
            try:
                async with asyncio.timeout(PROBE_TIMEOUT):
                    self._connection = await self._open()
            except Exception as error:  # noqa: BLE001 - a search that dies would leave the server away for ever
                cause = name_cause(error)
                if told == "not connected yet":
                    self._changed(cause)
                    told = cause
                delay = min(max(2 * delay, FIRST_PROBE), LAST_PROBE)
                continue
            self._probe = None
            self.away = False
            self._changed("")
            return

    async def _open(self) -> Connection:
        connection = await self._opener()
        try:
            mark = f"{self._probe_key}:epoch"
            commands = [
                ("SET", self._probe_key, "1", "PX", "60000"),
                ("SCRIPT", "LOAD", SOURCE),
                self._epochs.command(mark, self.clock and self.clock()),
            ]
            replies = await exchange(connection, commands)
            check(*replies)
            settling = self._epochs.read(mark, cast("bytes", replies[-1]))
            self._settles = asyncio.get_running_loop().time() + settling / SECOND if settling else 0.0
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection


def write_call(verb: str, script: str, keys: Sequence[str], arguments: Sequence[str]) -> list[str | int]:
    """Write the command that calls a script."""
    return [verb, script, len(keys), *keys, *arguments]


async def exchange(connection: Connection, commands: Sequence[Sequence[str | int]]) -> list[object]:
    """Send commands in one write and read their replies; an error reply is a value.

    Whatever else goes wrong, cancellation included, leaves the connection closed.
    """
    try:
        await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
        replies: list[object] = []
        for _ in commands:
            try:
                replies.append(await connection.read_response())
            except ResponseError as error:
                replies.append(error)
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    return replies


def check(*replies: object) -> None:
    """Raise the first reply that is an error."""
    for reply in replies:
        if isinstance(reply, ResponseError):
            raise reply


def read_reply(parcel: Sequence[Group], reply: object) -> Sequence[Answer | Redirected]:
    """Turn the reply to one call into an answer for each of its groups; raises any error but a redirection."""
    if isinstance(reply, ResponseError):
        if str(reply).startswith(("MOVED", "ASK", "TRYAGAIN")) or type(reply).__name__ in _REDIRECTIONS:
            return [Redirected(name_cause(reply)) for _ in parcel]
        raise reply
    return decode(parcel, cast("bytes", reply))


_REDIRECTIONS = frozenset({"MovedError", "AskError", "TryAgainError"})


def settle(future: "asyncio.Future[Answer]", answer: Answer | StoreAway) -> None:
    """Hand an answer to whoever still waits for it."""
    if future.done():
        return
    if isinstance(answer, StoreAway):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def name_cause(error: BaseException) -> str:
    """Say what went wrong in a few words: the kind of error and its text, which holds no credential."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
