"""YAML as a tree with places: what a reader of rules needs to say where a fault stands.

The nodes keep the text of each scalar as it was written, as the files' own programme reads it: `value: 1` is the
string "1" and `unit: on` the string "on".
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

TAG = "tag:yaml.org,2002:"

# YAML 1.1 booleans: the files were written for a reader that knows them all.
_TRUE = frozenset(("true", "yes", "on", "y"))
_FALSE = frozenset(("false", "no", "off", "n"))

LARGEST_COUNT = 2**32 - 1

Fields = dict[str, Node]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: the file, line and column (from 1; 0 where there is none), and what."""

    file: str
    line: int
    column: int
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.text}"


@dataclass(slots=True)
class Source:
    """One file under reading: it collects faults instead of stopping at the first."""

    file: str
    faults: list[Fault] = field(default_factory=list)
    notices: list[Fault] = field(default_factory=list)

    def blame(self, node: Node, text: str) -> None:
        """Note a fault at a node."""
        self.faults.append(self._locate(node, text))

    def notice(self, node: Node, text: str) -> None:
        """Note what has no effect, at a node."""
        self.notices.append(self._locate(node, text))

    def place(self, node: Node) -> str:
        """Name the place of a node as "file:line"."""
        return f"{self.file}:{node.start_mark.line + 1}"

    def parse_text(self, text: str) -> Node | None:
        """Parse the first document of a YAML text; None where there is none or it cannot be parsed."""
        try:
            documents = iter(YAML(typ="safe", pure=True).compose_all(text))
            first: Node | None = next(documents, None)
            second = next(documents, None)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            problem = ": ".join(filter(None, (error.context, error.problem)))
            line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
            self.faults.append(Fault(self.file, line, column, f"error loading config file: {problem}"))
            return None
        except YAMLError as error:
            self.faults.append(Fault(self.file, 0, 0, f"error loading config file: {str(error).splitlines()[0]}"))
            return None
        except RecursionError:
            self.faults.append(Fault(self.file, 0, 0, "error loading config file: nested too deeply"))
            return None
        if second is not None:
            self.notice(second, "only the first document of a file is read")
        return first

    def read_mapping(self, node: Node | None, expected: frozenset[str], known: frozenset[str]) -> Fields:
        """Read a mapping whose keys are `expected` here; other `known` keys are noted, unknown ones are faults.

        Of a key that stands twice the last one counts. `<<` brings in the keys that the mapping itself does not have.
        """
        if node is None or is_null(node):
            return {}
        if not isinstance(node, MappingNode):
            self.blame(node, f"error loading config file: found {describe_node(node)}, expected a mapping")
            return {}
        own: Fields = {}
        merged: Fields = {}
        for key, value in node.value:
            if key.tag == f"{TAG}merge":
                for other in _list_merged(value):
                    merged |= self.read_mapping(other, expected, known) | merged
            elif not isinstance(key, ScalarNode) or key.tag != f"{TAG}str":
                self.blame(key, f"config error, key is not of type string: {show_node(key)}")
            elif key.value not in known:
                self.blame(key, f"config error, unknown key '{key.value}'")
            elif key.value not in expected:
                self.notice(key, f"'{key.value}' has no effect here")
            else:
                if key.value in own:
                    self.notice(key, f"'{key.value}' stands twice in one mapping; the last one counts")
                own[key.value] = value
        return merged | own

    def read_list(self, node: Node | None) -> Iterator[Node]:
        """Read a list of mappings; anything else in it is a fault."""
        if node is None or is_null(node):
            return
        if not isinstance(node, SequenceNode):
            self.blame(node, f"error loading config file: found {describe_node(node)}, expected a list")
            return
        for item in node.value:
            if isinstance(item, MappingNode):
                yield item
            else:
                text = f"config error, yaml file contains list of type other than map: {show_node(item)}"
                self.blame(item, text)

    def read_text(self, node: Node | None) -> str:
        """Read a string: the text of any scalar as it was written, "" for an absent one."""
        if node is None or is_null(node):
            return ""
        if isinstance(node, ScalarNode):
            return str(node.value)
        self.blame(node, f"error loading config file: found {describe_node(node)}, expected a string")
        return ""

    def read_flag(self, node: Node | None) -> bool:
        """Read a boolean; an absent one is false."""
        if node is None or is_null(node):
            return False
        word = str(node.value).lower() if isinstance(node, ScalarNode) and not node.style else ""
        if word not in _TRUE | _FALSE:
            self.blame(node, f"error loading config file: found {describe_node(node)}, expected true or false")
        return word in _TRUE

    def read_count(self, node: Node | None) -> int:
        """Read a whole number from 0 to 4294967295, as a limit is on the wire; an absent one is 0."""
        if node is None or is_null(node):
            return 0
        count = -1
        if isinstance(node, ScalarNode) and node.tag == f"{TAG}int":
            try:
                count = int(node.value, 0)
            except ValueError:
                count = -1
        if 0 <= count <= LARGEST_COUNT:
            return count
        found = describe_node(node)
        self.blame(node, f"error loading config file: found {found}, expected a whole number from 0 to {LARGEST_COUNT}")
        return 0

    def _locate(self, node: Node, text: str) -> Fault:
        return Fault(self.file, node.start_mark.line + 1, node.start_mark.column + 1, text)


def is_null(node: Node) -> bool:
    """Tell whether a node is empty, `~` or `null`."""
    return bool(node.tag == f"{TAG}null")


def make_plain(node: Node) -> object:
    """Turn a node into plain data: dict, list, str, bool, int, float, None."""
    if isinstance(node, MappingNode):
        return {show_node(key): make_plain(value) for key, value in node.value}
    if isinstance(node, SequenceNode):
        return [make_plain(item) for item in node.value]
    text = str(node.value)
    match str(node.tag).removeprefix(TAG):
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int" | "float":
            return _make_number(text)
    return text


def show_node(node: Node) -> str:
    """Show a node as it was written, a collection by its kind."""
    return str(node.value) if isinstance(node, ScalarNode) else describe_node(node)


def describe_node(node: Node) -> str:
    """Describe a node for the word "found" of a fault."""
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, SequenceNode):
        return "a list"
    return f"'{node.value}'"


def _list_merged(value: Node) -> list[Node]:
    return list(value.value) if isinstance(value, SequenceNode) else [value]


def _make_number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
