"""From the gateway document on disk to the two halves: the snapshot, and the Envoy configuration beside it."""

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.snapshot import Snapshot
from policy.document import Document, load_document
from policy.output import write_files
from policy.snapshot import compile_snapshot
from sidecar.watch import Content, Watch, read_content

_CLUSTERS = "cds.yaml"


@dataclass(frozen=True, slots=True)
class Loaded:
    """One good version of the document, compiled whole; nothing of it is in use yet."""

    document: Document
    snapshot: Snapshot
    files: Mapping[str, Mapping[str, Any]]


class Loader:
    """Loads a document, and tells when one of the files that it is made of has changed since."""

    def __init__(
        self, path: Path, envoy: Path | None, workers: int | None = None, environment: Mapping[str, str] = os.environ
    ) -> None:
        """Load `path`, with its number of workers replaced by `workers` where that is given."""
        self._path = path
        self._envoy = envoy
        self._workers = workers
        self._environment = environment
        self._watch = Watch([path])
        self._published: Mapping[str, Mapping[str, Any]] = {}

    def load(self) -> Loaded:
        """Load and compile everything. Raises Faults, and nothing has changed then."""
        contents: dict[Path, Content] = {}
        try:
            document = load_document(self._path, self._environment, _noting(contents))
        finally:
            # a document with faults may not have named all its files: those of the last load stay watched
            self._watch.follow({path: read_content(path) for path in self._watch.paths} | contents)
        self._watch.follow(contents)
        if self._workers is not None:
            sidecar = document.sidecar.model_copy(update={"workers": self._workers})
            document = document.model_copy(update={"sidecar": sidecar})
        return Loaded(document, compile_snapshot(document), self._compile(document))

    def _compile(self, document: Document) -> Mapping[str, Mapping[str, Any]]:
        """Compile Envoy's half; its types take half a second to import, so that is left until somebody wants it."""
        if self._envoy is None:
            return {}
        files: dict[str, dict[str, Any]] = importlib.import_module("policy.envoy").compile_envoy(document, self._envoy)
        return files

    def poll(self) -> bool:
        """Tell whether a change of the document, or of a file that it names, has settled."""
        return self._watch.poll()

    def publish(self, loaded: Loaded) -> list[str]:
        """Write Envoy's half where a directory was named; the names of the files that changed. Raises OSError.

        Clusters that are no longer there stay until `settle`: Envoy reads its files one by one, and for a moment its
        routes still name them.
        """
        if self._envoy is None:
            return []
        changed = write_files(self._envoy, _with_former(self._published, loaded.files))
        self._published = loaded.files
        return changed

    def settle(self, loaded: Loaded) -> list[str]:
        """Write what `publish` left for later, once Envoy has read the rest. Raises OSError."""
        return [] if self._envoy is None else write_files(self._envoy, loaded.files)


def _with_former(
    former: Mapping[str, Mapping[str, Any]], files: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Mapping[str, Any]]:
    clusters = files[_CLUSTERS]["resources"]
    names = {cluster["name"] for cluster in clusters}
    gone = [cluster for cluster in former.get(_CLUSTERS, {}).get("resources", ()) if cluster["name"] not in names]
    if not gone:
        return files
    version = f"{files[_CLUSTERS]['version_info']}-{former[_CLUSTERS]['version_info']}"
    return {**files, _CLUSTERS: {"version_info": version, "resources": [*clusters, *gone]}}


def _noting(contents: dict[Path, Content]) -> Callable[[Path], bytes]:
    def read(path: Path) -> bytes:
        content = contents[path] = read_content(path)
        if isinstance(content, bytes):
            return content
        raise content

    return read
