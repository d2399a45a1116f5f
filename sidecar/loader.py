"""From the gateway document on disk to the two halves: the snapshot, and the Envoy configuration beside it."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.snapshot import Snapshot
from policy.document import Document, load_document
from policy.envoy import compile_envoy
from policy.output import write_files
from policy.snapshot import compile_snapshot
from sidecar.watch import Content, Watch, read_content


@dataclass(frozen=True, slots=True)
class Loaded:
    """One good version of the document, compiled whole; nothing of it is in use yet."""

    document: Document
    snapshot: Snapshot
    files: Mapping[str, Mapping[str, Any]]


class Loader:
    """Loads a document, and tells when one of the files that it is made of has changed since."""

    def __init__(self, path: Path, envoy: Path | None, environment: Mapping[str, str] = os.environ) -> None:
        self._path = path
        self._envoy = envoy
        self._environment = environment
        self._watch = Watch([path])

    def load(self) -> Loaded:
        """Load and compile everything. Raises Faults, and nothing has changed then."""
        contents: dict[Path, Content] = {}
        try:
            document = load_document(self._path, self._environment, _noting(contents))
        finally:
            # a document with faults may not have named all its files: those of the last load stay watched
            self._watch.follow({path: read_content(path) for path in self._watch.paths} | contents)
        self._watch.follow(contents)
        return Loaded(document, compile_snapshot(document), compile_envoy(document, self._envoy))

    def poll(self) -> bool:
        """Tell whether a change of the document, or of a file that it names, has settled."""
        return self._watch.poll()

    def publish(self, loaded: Loaded) -> list[str]:
        """Write Envoy's half where a directory was named; the names of the files that changed. Raises OSError."""
        return [] if self._envoy is None else write_files(self._envoy, loaded.files)


def _noting(contents: dict[Path, Content]) -> Callable[[Path], bytes]:
    def read(path: Path) -> bytes:
        content = contents[path] = read_content(path)
        if isinstance(content, bytes):
            return content
        raise content

    return read
