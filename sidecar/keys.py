"""The caller context's signing keys on disk: one file that only the sidecar may read, shared by all its workers."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from authz.ring import ContextRing, RingInvalid
from model.instant import Instant
from model.snapshot import Context

FILE = "context-keys.json"


class KeysUnusable(Exception):
    """The state directory cannot be used; the text says why."""


class RingFile:
    """A ring that survives a restart where there is a directory for it, and lives in memory where there is none."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._memory: ContextRing | None = None

    def current(self, context: Context, now: Instant) -> ContextRing:
        """Return the ring as it must be now: read or begun, rotated where that is due, and saved.

        `rotation` and `overlap` are those of the policy. Raises KeysUnusable where the file cannot be read or written.
        """
        if self._directory is None:
            self._memory = _advance(self._memory, context, now)
            return self._memory
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _lock(self._directory):
                return self._renew(self._directory / FILE, context, now)
        except (OSError, RingInvalid) as error:
            raise KeysUnusable(f"{self._directory / FILE}: {error}") from error

    def _renew(self, path: Path, context: Context, now: Instant) -> ContextRing:
        stored = ContextRing.from_json(path.read_text()) if path.exists() else None
        ring = _advance(stored, context, now)
        if ring != stored:
            replace_file(path, ring.to_json())
        return ring


def _advance(ring: ContextRing | None, context: Context, now: Instant) -> ContextRing:
    if ring is None:
        return ContextRing.create(now, context.rotation, context.overlap)
    if (ring.rotation, ring.overlap) != (context.rotation, context.overlap):
        ring = ContextRing(ring.keys, context.rotation, context.overlap)
    return ring.rotate(now)


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    """Hold the directory's lock: two workers must not begin, or rotate, two rings."""
    handle = os.open(directory / f"{FILE}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def replace_file(path: Path, *parts: str | bytes | memoryview) -> None:
    """Replace a file in one piece by these parts, readable by this user only. Raises OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp makes it 0600
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part.encode() if isinstance(part, str) else part)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
