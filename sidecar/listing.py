"""Lists on disk that are too large to be read often: API keys and revocations, read anew when their files change."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from model.instant import SECOND, Duration

PIECE = 1 << 20
"""Bytes read at once. A reader in small pieces lets go of the interpreter's lock so often, and takes it back so soon,
that the event loop never gets it: of 100,000 keys, read 8 KiB at a time, it stood still for a second."""

Table = TypeVar("Table")
Mark = tuple[tuple[int, ...], ...]


class Listing(Generic[Table]):
    """Files that are read as one list. A bad one is refused as a whole and the list at hand stays.

    `parse` makes the table of the files' lines and raises ValueError. It runs in a thread: half a million keys take
    seconds, and no decision waits for them. `keep` may know the table of these files already, and else makes it.
    """

    def __init__(
        self,
        parse: Callable[[Iterable[bytes]], Table],
        keep: Callable[[Sequence[Path], Callable[[], Table]], Table] = lambda _paths, make: make(),
    ) -> None:
        self.paths: tuple[Path, ...] = ()
        self._parse = parse
        self._keep = keep
        self._accepted: Mark = ()

    async def load(self, paths: Sequence[Path]) -> tuple[Table, Mark]:
        """Read files that are not followed yet: the list, and how the files looked. Raises ValueError, naming them."""
        return await asyncio.to_thread(self._load, paths)

    async def follow(
        self,
        poll: Duration,
        take: Callable[[Table], None],
        refuse: Callable[[str], None],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Take every later version; ends when cancelled.

        A change counts when two looks in a row see the same: a file that is being written is left alone.
        """
        seen = self._accepted
        while True:
            await sleep(poll / SECOND)
            paths, before = self.paths, seen
            seen = await asyncio.to_thread(_look, paths)
            if seen in (self._accepted, ()) or seen != before or paths != self.paths:
                continue
            self._accepted = seen
            try:
                table, mark = await asyncio.to_thread(self._load, paths)
            except ValueError as error:
                refuse(str(error))
                continue
            except Exception as error:  # noqa: BLE001 - a fault of ours must not end the watch over all later edits
                refuse(f"the reader failed: {type(error).__name__}")
                continue
            if paths == self.paths:
                self._accepted = mark
                take(table)

    def adopt(self, paths: Sequence[Path], mark: Mark) -> None:
        """Follow these files from now on, which were loaded when they looked like this."""
        self.paths, self._accepted = tuple(paths), mark

    def _load(self, paths: Sequence[Path]) -> tuple[Table, Mark]:
        mark = _look(paths)
        try:
            return self._keep(paths, lambda: self._parse(_lines(paths))), mark
        except (ValueError, OSError) as error:
            names = ", ".join(map(str, paths))
            raise ValueError(f"{names}: {getattr(error, 'strerror', None) or error}") from error


def _lines(paths: Iterable[Path]) -> Iterator[bytes]:
    for path in paths:
        with path.open("rb", PIECE) as file:
            yield from file


def _look(paths: Iterable[Path]) -> Mark:
    """See how files look; behind links, so that a swapped link is a change. A missing one looks like nothing."""
    marks: list[tuple[int, ...]] = []
    for path in paths:
        try:
            found = path.stat()
        except OSError:
            marks.append((0,))
        else:
            marks.append((found.st_mtime_ns, found.st_size, found.st_ino))
    return tuple(marks)
