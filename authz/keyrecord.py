"""One record of a key file: a line of JSON that says whose key it is, what it may, and how it hashes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from model.instant import SECOND, Instant

ID_LIMIT = 64
_DIGITS = frozenset("0123456789abcdef")
_ID_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_MEMBERS = frozenset(
    ("id", "sha256", "client_id", "scopes", "roles", "tenant", "not_before", "not_after", "privileged")
)


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """What is known of one API key. `privileged` keys are accepted in a header only, whatever the route says."""

    id: str
    sha256: str = field(repr=False)
    client_id: str
    scopes: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    tenant: str = ""
    not_before: Instant | None = None
    not_after: Instant | None = None
    privileged: bool = False


def read_record(line: bytes) -> KeyRecord:
    """Read one record, a line of JSON. Raises ValueError with what was expected."""
    members = json.loads(line)
    if not isinstance(members, dict):
        raise ValueError("expected a JSON object")
    if unknown := sorted(set(members) - _MEMBERS):
        raise ValueError(f"unknown member {unknown[0][:40]!r}")
    key_id, digest, client = (_text(members, name) for name in ("id", "sha256", "client_id"))
    if not key_id or len(key_id) > ID_LIMIT or not _ID_LETTERS.issuperset(key_id):
        raise ValueError(f"id must be 1 to {ID_LIMIT} letters, digits, '-' or '_'")
    if len(digest) != 64 or not _DIGITS.issuperset(digest):
        raise ValueError("sha256 must be 64 lower-case hexadecimal digits")
    if not client:
        raise ValueError("client_id must not be empty")
    privileged = members.get("privileged", False)
    if not isinstance(privileged, bool):
        raise ValueError("privileged must be true or false")
    return KeyRecord(
        key_id,
        digest,
        client,
        _names(members, "scopes"),
        _names(members, "roles"),
        _text(members, "tenant", ""),
        _seconds(members, "not_before"),
        _seconds(members, "not_after"),
        privileged,
    )


def _text(members: Mapping[str, object], name: str, default: str | None = None) -> str:
    value = members.get(name, default)
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string")
    return value


def _names(members: Mapping[str, object], name: str) -> frozenset[str]:
    value = members.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise ValueError(f"{name} must be a list of strings")
    return frozenset(value)


def _seconds(members: Mapping[str, object], name: str) -> Instant | None:
    value = members.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} must be whole seconds since the epoch")
    return value * SECOND
