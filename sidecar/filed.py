"""Credentials and revocations that stand in files: read whole, watched by content, replaced only by good ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from authz.apikey import KeyTable
from authz.denylist import Denylist, read_list
from model.snapshot import Snapshot
from sidecar.watch import Content, Watch, read_content


@dataclass(frozen=True, slots=True)
class Filed:
    """The API keys and the denylist of one policy's files."""

    keys: KeyTable = field(default_factory=KeyTable)
    denylist: Denylist = field(default_factory=Denylist)


class FiledReader:
    """Reads the files that one policy names, and tells when they have changed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._keys = tuple(map(Path, snapshot.api_keys))
        self._denials = tuple(map(Path, snapshot.revocation.files))
        self._watch = Watch([])

    def read(self) -> Filed:
        """Read all files. Raises ValueError, naming the file, where one cannot be read or holds a line that is none."""
        contents = {path: read_content(path) for path in (*self._keys, *self._denials)}
        self._watch.follow(contents)
        key_lines = [line for path in self._keys for line in _lines(path, contents[path])]
        denials = [line for path in self._denials for line in _lines(path, contents[path])]
        try:
            return Filed(KeyTable(key_lines), read_list(denials))
        except ValueError as error:
            names = ", ".join(map(str, contents))
            raise ValueError(f"{names}: {error}") from error

    def poll(self) -> bool:
        """Tell whether a change of one of the files has settled."""
        return self._watch.poll()


def _lines(path: Path, content: Content) -> Sequence[bytes]:
    if isinstance(content, bytes):
        return content.splitlines()
    raise ValueError(f"{path}: cannot be read: {content.strerror}")
