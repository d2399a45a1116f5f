"""The JSON Schema that editors get is one, and knows the document's keys."""

import json

from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from policy.schema import json_schema
from tests.policy.build import MINIMAL


def walk(node):
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from walk(value)


def test_schema_is_valid_json_schema():
    Draft202012Validator.check_schema(json_schema())


def test_schema_takes_a_good_document_and_refuses_a_broken_one():
    """Editors see the document before its variables are replaced, so a fixed one stands for it here."""
    document = YAML(typ="safe").load(MINIMAL)
    schema = Draft202012Validator(json_schema())

    assert list(schema.iter_errors(document)) == []
    document["routes"][0]["timeuot"] = "2s"
    (error,) = schema.iter_errors(document)
    assert "timeuot" in error.message


def test_schema_refers_only_to_what_it_defines():
    schema = json.loads(json.dumps(json_schema()))
    references = {node["$ref"].rpartition("/")[2] for node in walk(schema) if "$ref" in node}

    assert references <= schema["$defs"].keys()
    assert schema["$schema"].endswith("2020-12/schema")


def test_schema_allows_no_key_that_the_language_does_not_know():
    shapes = [node for node in walk(json_schema()) if node.get("type") == "object" and "properties" in node]

    assert len(shapes) > 20
    assert all(shape["additionalProperties"] is False for shape in shapes)
    assert all("properties" not in shape or shape["properties"] for shape in shapes)
