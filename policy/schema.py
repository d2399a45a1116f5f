"""The document's shape as JSON Schema, for editors."""

from typing import Any

from policy.gateway import Document


def json_schema() -> dict[str, Any]:
    """Give the JSON Schema (2020-12) of a gateway document, before `${NAME}` is replaced."""
    schema = Document.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "wardgate gateway document",
        **{name: value for name, value in schema.items() if name != "title"},
    }
