"""Watching files by their content: the one thing that an in-place write, a rename and a symlink swap have in common."""

import errno
import hashlib
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

Content = bytes | OSError
"""What reading a file gave: its bytes, or why it could not be read."""


class Watch:
    """Tells when the content of some files has changed and has stopped changing.

    A change counts when two polls in a row read the same new content, so that a file that is being written in place
    is not taken half done. Touching a file, or replacing it by an equal one, is no change.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self.follow({path: read_content(path) for path in paths})

    def follow(self, contents: Mapping[Path, Content]) -> None:
        """Watch these files from now on; a change is what differs from these contents, which somebody has read."""
        self.paths = tuple(contents)
        self._accepted = self._seen = digest_contents(contents)

    def poll(self) -> bool:
        """Read all files; True once for each settled change."""
        return self.observe({path: read_content(path) for path in self.paths})

    def observe(self, contents: Mapping[Path, Content]) -> bool:
        """Look at what was read just now; True once for each settled change."""
        digest = digest_contents(contents)
        settled = digest == self._seen
        self._seen = digest
        if digest == self._accepted or not settled:
            return False
        self._accepted = digest
        return True


def read_content(path: Path) -> Content:
    """Read a file whole. A pipe or a device counts as unreadable: it can hold the watch, and a stop, for good."""
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return OSError(errno.EINVAL, "not a regular file")
        return path.read_bytes()
    except OSError as error:
        return error


def read_folder(directory: Path) -> dict[Path, Content]:
    """Read all files below a folder, those behind links too; an empty mapping where there is no folder."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return {path: read_content(path) for path in paths}


def digest_contents(contents: Mapping[Path, Content]) -> bytes:
    """Digest names and contents; a file that cannot be read counts as one with other content."""
    total = hashlib.blake2b(digest_size=16)
    for path, content in contents.items():
        mark, data = (b"1", content) if isinstance(content, bytes) else (b"0", type(content).__name__.encode())
        total.update(
            mark + b"".join(hashlib.blake2b(part, digest_size=16).digest() for part in (str(path).encode(), data))
        )
    return total.digest()
