"""YAML bytes to a plain tree in which every value knows its line and column.

Stricter than YAML: UTF-8 only, one document, a mapping at the top, text keys that stand once, no tags, and bounds on
size, depth and the number of values (aliases counted as often as they are used), so that no document can hurt.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from policy.fault import Fault, Faults, show_value

Where = tuple[str | int, ...]

LARGEST_DOCUMENT = 4 << 20
DEEPEST = 32
MOST_VALUES = 50_000

_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^${}]*))?\})", re.ASCII)
# An escape like "\ud83d", half of a character: YAML lets it pass, and it is no text.
_HALF = re.compile("[\ud800-\udfff]")
_HALF_WORDS = ("an escape that is half a character", r"whole characters, as themselves or as \UXXXXXXXX")
_TAG = "tag:yaml.org,2002:"
_WORDS = {"true": True, "false": False}


@dataclass(slots=True)
class Tree:
    """A document as plain dicts, lists and scalars. `values` and `keys` give line and column (from 1) by path."""

    file: str
    root: dict[str, object] = field(default_factory=dict)
    values: dict[Where, tuple[int, int]] = field(default_factory=dict)
    keys: dict[Where, tuple[int, int]] = field(default_factory=dict)

    def fault(self, path: Where, found: str, expected: str, *, key: bool = False) -> Fault:
        """Make the fault at a path, or at the nearest thing above it that stands in the file."""
        known = path
        while known and known not in self.values:
            known = known[:-1]
        line, column = self.values.get(known, (1, 1))
        name = self.keys.get(known)
        if name is not None and (key or name[0] != line):
            # A block below its key is found by the key.
            line, column = name
        return Fault(self.file, line, column, write_path(path), found, expected)


def write_path(path: Where) -> str:
    """Write a path as "routes[2].match.path"; "document" for the root."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "document"


def read_tree(file: str, data: bytes, environment: Mapping[str, str]) -> Tree:
    """Read a document, with `${NAME}` and `${NAME:-default}` in scalars replaced (`$$` is a dollar sign).

    Raises Faults.
    """
    root = _compose(file, data)
    tree = Tree(file)
    builder = _Builder(tree, environment)
    value = builder.build(root, ())
    if builder.faults:
        raise Faults(builder.faults)
    if not isinstance(value, dict):
        raise Faults([tree.fault((), show_value(value), "a mapping of sections such as planes and routes")])
    tree.root = value
    return tree


def _compose(file: str, data: bytes) -> Node:
    if len(data) > LARGEST_DOCUMENT:
        raise Faults([Fault(file, 1, 1, "document", f"{len(data)} bytes", f"at most {LARGEST_DOCUMENT} bytes")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        byte = f"byte 0x{data[error.start]:02x}"
        raise Faults([Fault(file, line, column, "document", byte, "UTF-8 text")]) from None
    try:
        node: Node | None = YAML(typ="safe", pure=True).compose(text)
    except RecursionError:
        raise Faults([Fault(file, 1, 1, "document", "values nested too deep", f"at most {DEEPEST} levels")]) from None
    except (YAMLError, ValueError) as error:
        raise Faults([_syntax_fault(file, text, error)]) from None
    if node is None:
        raise Faults([Fault(file, 1, 1, "document", "nothing", "a mapping of sections such as planes and routes")])
    return node


def _syntax_fault(file: str, text: str, error: Exception) -> Fault:
    if isinstance(error, ReaderError):
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        return Fault(file, line, column, "document", f"the control character {error.character!r}", "printable text")
    mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
    problem = (error.problem if isinstance(error, MarkedYAMLError) else None) or str(error).partition("\n")[0]
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    if "'\\t'" in problem:
        return Fault(file, line, column, "document", "a tab", "spaces for indentation")
    return Fault(file, line, column, "document", f"YAML that cannot be read ({problem})", "well-formed YAML 1.2")


class _Builder:
    """Turns composed nodes into plain values and notes where each stands."""

    def __init__(self, tree: Tree, environment: Mapping[str, str]) -> None:
        self.faults: list[Fault] = []
        self._tree = tree
        self._environment = environment
        self._count = 0
        self._resolve = YAML(typ="safe", pure=True).resolver.resolve

    def build(self, node: Node, path: Where) -> object:
        mark = node.start_mark
        self._tree.values[path] = (mark.line + 1, mark.column + 1)
        self._count += 1
        if self._count > MOST_VALUES:
            raise Faults([self._tree.fault(path, "too many values", f"at most {MOST_VALUES}, aliases included")])
        if len(path) > DEEPEST:
            raise Faults([self._tree.fault(path, "values nested too deep", f"at most {DEEPEST} levels")])
        if isinstance(node, MappingNode):
            self._refuse_tag(node, path, f"{_TAG}map")
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            self._refuse_tag(node, path, f"{_TAG}seq")
            return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        assert isinstance(node, ScalarNode)  # noqa: S101 - YAML has no fourth kind of node
        return self._scalar(node, path)

    def _mapping(self, node: MappingNode, path: Where) -> dict[str, object]:
        result: dict[str, object] = {}
        for key, value in node.value:
            line, column = key.start_mark.line + 1, key.start_mark.column + 1
            if not isinstance(key, ScalarNode) or not isinstance(key.value, str):
                self.faults.append(
                    Fault(self._tree.file, line, column, write_path(path), "a key that is not text", "text")
                )
                continue
            if not key.value.isascii() and _HALF.search(key.value):
                self.faults.append(Fault(self._tree.file, line, column, write_path(path), *_HALF_WORDS))
                continue
            name = (*path, key.value)
            if key.value in result:
                first = self._tree.keys[name][0]
                self.faults.append(
                    Fault(
                        self._tree.file,
                        line,
                        column,
                        write_path(name),
                        f"the key {show_value(key.value)} again",
                        f"each key once (first on line {first})",
                    )
                )
                continue
            self._tree.keys[name] = (line, column)
            result[key.value] = self.build(value, name)
        return result

    def _scalar(self, node: ScalarNode, path: Where) -> object:
        plain = node.style is None
        self._refuse_tag(node, path, self._resolve(ScalarNode, node.value, (plain, not plain)))
        text = self._substitute(node.value, path)
        if not text.isascii() and _HALF.search(text):
            self.faults.append(self._tree.fault(path, *_HALF_WORDS))
        return _plain_value(text, str(self._resolve(ScalarNode, text, (True, False)))) if plain else text

    def _refuse_tag(self, node: Node, path: Where, implied: object) -> None:
        if str(node.tag) != str(implied):
            self.faults.append(self._tree.fault(path, f"the tag {show_value(str(node.tag))}", "a value without a tag"))

    def _substitute(self, text: str, path: Where) -> str:
        def replace(match: re.Match[str]) -> str:
            name, default = match["name"], match["default"]
            if name is None:
                return "$"
            value = self._environment.get(name) or default
            if value is None:
                expected = f"the environment variable {name} to be set, or a default: ${{{name}:-...}}"
                self.faults.append(self._tree.fault(path, f"${{{name}}} unset", expected))
            return value or ""

        return _VARIABLE.sub(replace, text) if "$" in text else text


def _plain_value(text: str, tag: str) -> object:
    """Give an unquoted scalar its YAML 1.2 type; what is no plain bool, int, float or null stays text."""
    kind = tag.removeprefix(_TAG)
    if kind == "null":
        return None
    if kind == "bool":
        return _WORDS.get(text.lower(), text)
    try:
        if kind == "int":
            return int(text.replace("_", ""), 0)
        if kind == "float":
            return float(text)
    except ValueError:
        return text
    return text
