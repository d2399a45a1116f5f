"""One line of the tour: what was asked, what was expected, what came; and the rules that every answer must keep."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from demo.client import Reply

PROBLEM = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the tour. `milliseconds` is what the whole answer took, None where there was none to time."""

    title: str
    expected: str
    got: str
    ok: bool
    milliseconds: float | None = None
    curl: str = ""


@dataclass(frozen=True, slots=True)
class Expect:
    """What an answer must be: status, problem slug, headers by regular expression (None: absent), members by path."""

    status: int
    slug: str = ""
    headers: Mapping[str, str | None] | None = None
    members: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return " ".join([str(self.status), self.slug or "", *sorted(self.headers or ())]).replace("  ", " ").strip()


def describe(reply: Reply) -> str:
    """Describe an answer in a few words: status and problem slug."""
    document = reply.json()
    slug = slug_of(document) if isinstance(document, dict) else ""
    return f"{reply.status} {slug}".strip()


def slug_of(document: Mapping[str, Any]) -> str:
    """Give the last part of a problem document's type."""
    return re.split(r"[:#/]", str(document.get("type", "")))[-1]


def complaints(reply: Reply, expect: Expect) -> list[str]:
    """List how an answer differs from what was expected; every refusal must also be a whole problem document."""
    found = []
    if reply.status != expect.status:
        found.append(f"status {reply.status}")
    document = reply.json()
    if reply.status >= 400:
        found += _problem_faults(reply, document)
    if expect.slug and slug_of(document or {}) != expect.slug:
        found.append(f"type {slug_of(document or {})!r}")
    for name, pattern in (expect.headers or {}).items():
        value = reply.header(name)
        if (pattern is None) != (value is None) or (pattern and not re.fullmatch(pattern, value or "")):
            found.append(f"{name}: {value}")
    for path, value in (expect.members or {}).items():
        if (seen := look_up(document, path)) != value:
            found.append(f"{path}: {seen!r}")
    return found


def look_up(document: Any, path: str) -> Any:
    """Follow a dotted path into a JSON document; None where it leads nowhere."""
    for part in path.split("."):
        if isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        elif isinstance(document, dict):
            document = document.get(part)
        else:
            return None
    return document


def _problem_faults(reply: Reply, document: Any) -> list[str]:
    if reply.header("content-type") != PROBLEM:
        return [f"content-type {reply.header('content-type')}"]
    if not isinstance(document, dict):
        return ["body is not JSON"]
    faults = [] if document.get("status") == reply.status else [f"body says status {document.get('status')}"]
    return faults + [f"no {name}" for name in ("type", "title", "request_id") if not document.get(name)]
