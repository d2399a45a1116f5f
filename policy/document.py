"""Loading a gateway document: bytes, tree, shape, cross checks, and the files that it names."""

from collections.abc import Callable, Mapping
from pathlib import Path

from policy.check import check_document
from policy.fault import Fault, Faults
from policy.gateway import Document
from policy.judge import judge_shape
from policy.tree import Tree, read_tree

__all__ = ["Document", "load_document"]


def load_document(
    path: Path, environment: Mapping[str, str], read: Callable[[Path], bytes] = Path.read_bytes
) -> Document:
    """Load a document, with the trust stores and descriptor sets that it names.

    `environment` replaces `${NAME}`. `read` reads a file and may be another in tests. Raises `Faults` with everything
    that is wrong at once; never anything else for whatever the file holds.
    """
    try:
        data = read(path)
    except OSError as error:
        raise Faults([_unreadable(Fault(str(path), 1, 1, "document", "", ""), error)]) from None
    tree = read_tree(str(path), data, environment)
    document, faults = judge_shape(tree)
    if document is None:
        raise Faults(faults)
    faults = check_document(document, tree)
    folder = path.absolute().parent
    contents, unread = _read_files(document, tree, folder, read)
    if faults or unread:
        raise Faults([*faults, *unread])
    document.attach(folder, contents)
    return document


def _read_files(
    document: Document, tree: Tree, folder: Path, read: Callable[[Path], bytes]
) -> tuple[dict[str, bytes], list[Fault]]:
    contents: dict[str, bytes] = {}
    faults: list[Fault] = []
    for where, name in document.needed_files().items():
        try:
            contents[name] = read(folder / name)
        except (OSError, ValueError) as error:
            faults.append(_unreadable(tree.fault(where, "", ""), error))
    return contents, faults


def _unreadable(fault: Fault, error: Exception) -> Fault:
    words = getattr(error, "strerror", None) or str(error)
    return Fault(fault.file, fault.line, fault.column, fault.where, f"a file that cannot be read ({words})", "a file")
