"""Watching files by their content: the one thing that an in-place write, a rename and a symlink swap have in common."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


class Watch:
    """Tells when the content of some files has changed and has stopped changing.

    A change counts when two polls in a row read the same new content, so that a file that is being written in place
    is not taken half done. Touching a file, or replacing it by an equal one, is no change.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = tuple(paths)
        self._accepted = self._seen = read_digest(self._paths)

    def follow(self, paths: Iterable[Path]) -> None:
        """Watch these files from now on, their content of now taken as known."""
        self._paths = tuple(paths)
        self._accepted = self._seen = read_digest(self._paths)

    def poll(self) -> bool:
        """Read all files; True once for each settled change."""
        digest = read_digest(self._paths)
        settled = digest == self._seen
        self._seen = digest
        if digest == self._accepted or not settled:
            return False
        self._accepted = digest
        return True


def read_digest(paths: Iterable[Path]) -> bytes:
    """Digest names and contents; a file that cannot be read counts as one with other content."""
    total = hashlib.blake2b(digest_size=16)
    for path in paths:
        try:
            content = hashlib.blake2b(path.read_bytes(), digest_size=16).digest()
        except OSError as error:
            content = type(error).__name__.encode()
        total.update(hashlib.blake2b(str(path).encode(), digest_size=16).digest() + content.ljust(32, b"\0"))
    return total.digest()
