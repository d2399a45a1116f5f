"""A tree held against the document's shape: pydantic's errors told as faults."""

from typing import Any

from pydantic import ValidationError

from policy.fault import Fault, show_value
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


def judge_shape(tree: Tree) -> tuple[Document | None, list[Fault]]:
    """Make the document of a tree, or say everything that is wrong with its shape."""
    try:
        return Document.model_validate(tree.root), []
    except ValidationError as error:
        return None, [_tell(tree, dict(item)) for item in error.errors(include_url=False)]


def _tell(tree: Tree, error: dict[str, Any]) -> Fault:
    path: Where = tuple(part for part in error["loc"] if part != "[key]")
    kind = error["type"]
    if kind == "missing":
        return tree.fault(path, "nothing", f"the key {path[-1]}")
    if kind == "extra_forbidden":
        known = ", ".join(_known_keys(path[:-1]))
        return tree.fault(path, f"the unknown key {show_value(str(path[-1]))}", f"one of {known}", key=True)
    words = _WORDS.get(kind)
    expected = words.format(**error.get("ctx", {})) if words else error["msg"]
    return tree.fault(path, show_value(error["input"]), expected, key=error["loc"][-1:] == ("[key]",))


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
