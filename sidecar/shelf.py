"""Tables that are large and the same for every worker, kept once in the state directory and mapped by all of them.

The first worker that needs a table reads the files and writes it down; the others wait for that and map what was
written, and so does a worker that starts later. A table is found by the content of the files, not by how they look:
a file that changed and kept its time and its size is another table. It is never written to again, only replaced, so
that a mapping of it stays what it was. What was spoiled on disk is made anew, and where nothing can be written each
worker holds a table of its own: memory is what that costs.
"""

import fcntl
import hashlib
import logging
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from authz.keytable import KeyTable, KeyTableInvalid, open_table
from sidecar.keys import replace_file

FLOOR = 1_000_000
_LOCK = "keys.lock"
_PREFIX, _SUFFIX = "keys-", ".table"
_log = logging.getLogger(__name__)


class Shelf:
    """The place of such tables: a folder, or None to keep none; below `floor` bytes a table is not worth a file."""

    def __init__(self, folder: Path | None, floor: int = FLOOR) -> None:
        self._folder = folder
        self._floor = floor

    def take(self, paths: Sequence[Path], make: Callable[[], KeyTable]) -> KeyTable:
        """Map the table of these files, or make it and write it down. Raises OSError, and what `make` raises.

        It blocks: for as long as another worker makes the table.
        """
        if self._folder is None or sum(path.stat().st_size for path in paths) < self._floor:
            return make()
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            _log.warning("API keys are not shared between workers: %s", error.strerror)
            return make()
        with _held(lock):
            path = self._folder / _name(paths)
            return _map(path) or self._write(path, make(), lambda: path.name == _name(paths))

    def _write(self, path: Path, table: KeyTable, settled: Callable[[], bool]) -> KeyTable:
        try:
            if not settled():
                return table
            for other in [*path.parent.glob(f"{_PREFIX}*{_SUFFIX}"), *path.parent.glob(f".{_PREFIX}*")]:
                other.unlink(missing_ok=True)
            replace_file(path, *table.parts())
        except OSError as error:
            _log.warning("API keys are not shared between workers: %s", error.strerror)
            return table
        return _map(path) or table


def _name(paths: Sequence[Path]) -> str:
    """Name a table after what its files hold. Raises OSError."""
    found = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return f"{_PREFIX}{found.hexdigest()[:32]}{_SUFFIX}"


@contextmanager
def _held(lock: int) -> Iterator[None]:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _map(path: Path) -> KeyTable | None:
    """Map a table; None where there is none that can be used."""
    try:
        with path.open("rb") as file:
            return open_table(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyTableInvalid) as error:  # ValueError: an empty file cannot be mapped
        _log.warning("a kept table of API keys is made anew: %s", error)
        return None
