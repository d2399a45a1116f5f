"""Loading a gateway document: bytes, tree, shape, cross checks, and the files that it names."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from policy.check import SECTIONS, check_document
from policy.descriptor import DescriptorInvalid, read_services
from policy.fault import Fault, Faults
from policy.finding import Finding, one_of
from policy.gateway import Document
from policy.judge import judge_shape
from policy.snapshot import read_anchors
from policy.transcoding import request_fields
from policy.tree import Tree, read_tree

__all__ = ["Document", "load_document"]

Read = Callable[[Path], bytes]


def load_document(path: Path, environment: Mapping[str, str], read: Read = Path.read_bytes) -> Document:
    """Load a document, with the trust stores and descriptor sets that it names.

    `environment` replaces `${NAME}`. `read` reads a file and may be another in tests. Raises `Faults` with everything
    that is wrong at once; never anything else for whatever the file holds. Warnings stand in `document.warnings`.
    """
    try:
        data = read(path)
    except OSError as error:
        raise Faults([Fault(str(path), 1, 1, "document", _unreadable(error), "a gateway document")]) from None
    tree = read_tree(str(path), data, environment)
    judgement = judge_shape(tree)
    document, faults = judgement.document, list(judgement.faults)
    warnings: list[Fault] = []
    contents: dict[str, bytes] = {}
    folder = path.absolute().parent
    if document is not None:
        findings = [*check_document(document, _known_names(tree)), *_read_files(document, folder, read, contents)]
        for finding in filter(judgement.is_news, findings):
            fault = tree.fault(judgement.place(finding.where), finding.found, finding.expected)
            (warnings if finding.warning else faults).append(fault)
    if document is None or faults:
        raise Faults(faults)
    document.attach(folder, contents, warnings)
    return document


def _known_names(tree: Tree) -> dict[str, frozenset[str]]:
    sections = {name: tree.root.get(name) for name in SECTIONS}
    return {name: frozenset(section if isinstance(section, dict) else ()) for name, section in sections.items()}


def _read_files(document: Document, folder: Path, read: Read, contents: dict[str, bytes]) -> Iterator[Finding]:
    for where, name in document.needed_files().items():
        try:
            contents[name] = read(folder / name)
        except (OSError, ValueError) as error:
            yield Finding(where, _unreadable(error), f"a readable file ({folder / name})")
            continue
        if where[-1] == "trust":
            yield from _check_anchors(where, contents[name])
        else:
            yield from _check_services(where, contents[name], document)


def _check_anchors(where: tuple[str | int, ...], data: bytes) -> Iterator[Finding]:
    if not read_anchors(data):
        yield Finding(where, "a file without a certificate", "PEM certificates")


def _check_services(where: tuple[str | int, ...], data: bytes, document: Document) -> Iterator[Finding]:
    try:
        known = read_services(data)
    except DescriptorInvalid as error:
        yield Finding(where, str(error), "a FileDescriptorSet, as protoc --include_imports writes it")
        return
    services = document.upstreams[str(where[1])].services
    missing = [(index, service) for index, service in enumerate(services) if service not in known]
    for index, service in missing:
        yield Finding((*where[:2], "services", index), f"the unknown service {service!r}", one_of([*known]))
    if not missing:
        yield from _check_rules(str(where[1]), data, document)


def _check_rules(upstream: str, data: bytes, document: Document) -> Iterator[Finding]:
    """Find transcoded routes behind which no method of the upstream stands."""
    for index, route in enumerate(document.routes):
        if not route.transcode or upstream not in route.targets:
            continue
        try:
            rules = request_fields(data, document.upstreams[upstream].services, route.match)["rules"]
        except DescriptorInvalid as error:
            yield Finding(("upstreams", upstream, "descriptors"), str(error), "a whole FileDescriptorSet")
            return
        if not rules:
            found = f"a match that no google.api.http rule of {upstream!r} has"
            yield Finding(("routes", index, "match"), found, "the method and path of one of its rules")


def _unreadable(error: Exception) -> str:
    return f"a file that cannot be read ({getattr(error, 'strerror', None) or error})"
