"""A tree held against the document's shape: pydantic's errors told as faults, and what is left without them."""

import copy
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from policy.fault import Fault, show_value
from policy.finding import Finding
from policy.gateway import Document
from policy.tree import Tree, Where

_WORDS = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "too_short": "at least {min_length} entries",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "text that matches {pattern}",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "expected": "{words}",
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of a tree.

    `document` holds what was well-formed, None where that is not enough for one; `routes` gives the places of its
    routes in the file, since refused ones are left out.
    """

    document: Document | None
    faults: list[Fault]
    routes: tuple[int, ...] = ()
    refused: frozenset[Where] = frozenset()

    def is_news(self, finding: Finding) -> bool:
        """Whether a finding is more than the echo of something refused at or below its place or its counterpart."""
        places = [place for place in (self.place(finding.where), finding.counterpart) if place]
        return not any(where[: len(place)] == place for where in self.refused for place in places)

    def place(self, where: Where) -> Where:
        """Translate a place in the document to one in the file."""
        if where[:1] == ("routes",) and len(where) > 1 and isinstance(where[1], int):
            return "routes", self.routes[where[1]], *where[2:]
        return where


def judge_shape(tree: Tree) -> Judgement:
    """Say everything that is wrong with the shape of a tree, and make a document of the rest.

    What is refused is taken out, and what cannot be without it too, until the rest is well-formed: so the cross checks
    can still find their faults in it and all are told at once.
    """
    rest = copy.deepcopy(tree.root)
    routes = rest.get("routes")
    places = list(range(len(routes))) if isinstance(routes, list) else []
    faults: list[Fault] | None = None
    refused: frozenset[Where] = frozenset()
    while rest:
        try:
            return Judgement(Document.model_validate(rest), faults or [], tuple(places), refused)
        except ValidationError as error:
            items = _causes([dict(item) for item in error.errors(include_url=False)])
        if faults is None:
            faults = [_tell(tree, item) for item in items]
            refused = frozenset(_place_of(item) for item in items)
        for where in sorted({_without(item) for item in items}, key=_depth, reverse=True):
            _take_out(rest, where, places)
    return Judgement(None, faults or [])


def _place_of(error: dict[str, Any]) -> Where:
    return tuple(part for part in error["loc"] if part != "[key]")


def _causes(errors: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out that a list is too short where that is only so because its entries were refused."""
    places = [_place_of(error) for error in errors]
    return [
        error
        for error, place in zip(errors, places, strict=True)
        if error["type"] != "too_short" or not any(len(p) > len(place) and p[: len(place)] == place for p in places)
    ]


def _without(error: dict[str, Any]) -> Where:
    """Say what has to go for an error to go: the wrong value, or whatever lacks a key."""
    where = _place_of(error)
    return where[:-1] if error["type"] == "missing" else where


def _depth(where: Where) -> tuple[int, list[tuple[bool, int, str]]]:
    # Of one list the last entry goes first, so that the indices of the others still hold.
    return len(where), [(isinstance(part, int), part if isinstance(part, int) else 0, str(part)) for part in where]


def _take_out(rest: dict[str, object], where: Where, places: list[int]) -> None:
    if not where or (len(where) == 2 and where[0] != "routes" and isinstance(where[1], int)):
        where = where[:1]
    if not where:
        rest.clear()
        return
    holder: Any = rest
    for depth, part in enumerate(where[:-1]):
        inner = holder.get(part) if isinstance(holder, dict) else holder[part] if isinstance(part, int) else None
        if not isinstance(inner, dict | list) or (isinstance(inner, list) and where[: depth + 1] != ("routes",)):
            # Inside a list that is no list of routes, or written in short: the whole value goes.
            holder.pop(part, None) if isinstance(holder, dict) else None
            return
        holder = inner
    if isinstance(holder, list):
        del holder[where[-1]]  # type: ignore[arg-type] # only a list of routes gets here, and its parts are indices
        del places[where[-1]]  # type: ignore[arg-type] # likewise
    else:
        holder.pop(where[-1], None)


def _tell(tree: Tree, error: dict[str, Any]) -> Fault:
    path = _place_of(error)
    kind = error["type"]
    if kind == "missing":
        return tree.fault(path, "nothing", f"the key {path[-1]}")
    if kind == "extra_forbidden":
        known = ", ".join(_known_keys(path[:-1]))
        return tree.fault(path, f"the unknown key {show_value(str(path[-1]))}", f"one of {known}", key=True)
    words = _WORDS.get(kind)
    expected = words.format(**error.get("ctx", {})) if words else error["msg"]
    found = error.get("ctx", {}).get("found") or show_value(error["input"])
    return tree.fault(path, found, expected, key=error["loc"][-1:] == ("[key]",))


def _known_keys(path: Where) -> list[str]:
    """List the keys of the shape that stands at a path."""
    schema = Document.model_json_schema()
    node = schema
    for part in path:
        node = _resolve(schema, node)
        properties = node.get("properties", {})
        if part in properties:
            node = properties[part]
        else:
            node = node.get("items" if isinstance(part, int) else "additionalProperties", {})
    return sorted(_resolve(schema, node).get("properties", {}))


def _resolve(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    for choice in [node, *node.get("anyOf", ())]:
        if "$ref" in choice:
            found: dict[str, Any] = schema["$defs"][choice["$ref"].rpartition("/")[2]]
            return found
    return node
