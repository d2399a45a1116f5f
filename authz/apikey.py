"""API keys: looked up by a public prefix, compared by hash, never held in clear.

A key reads `<id>.<secret>`. The id finds the record, the SHA-256 of the whole key decides. The secret is drawn from 256
random bits (`wardgate key`), so a fast hash is enough: there is no dictionary to try. Rotation is two records of one
client whose validity overlaps.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from model.instant import SECOND, Instant
from model.reason import Reason
from model.verdict import Deny

ID_LIMIT = 64
KEY_LIMIT = 256
_DIGITS = frozenset("0123456789abcdef")
_ID_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_MEMBERS = frozenset(
    ("id", "sha256", "client_id", "scopes", "roles", "tenant", "not_before", "not_after", "privileged")
)
# What an unknown id is compared with, so that it takes the time of a known one.
_NOBODY = hashlib.sha256(b"nobody").hexdigest()


class KeyFileInvalid(ValueError):
    """A line of a key file is no record; the text names line and fault and never quotes a hash."""


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


class KeyTable:
    """Many records in little memory: the file's own lines, found by id, read when they are asked for.

    500,000 records take the size of their file plus one dictionary; a look-up costs the same at any number.
    """

    def __init__(self, lines: Iterable[bytes] = ()) -> None:
        """Index the lines of a key file. Raises KeyFileInvalid for the first line that is no record."""
        self._lines: dict[str, bytes] = {}
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if not text or text.startswith(b"#"):
                continue
            try:
                record = read_record(text)
            except ValueError as error:
                raise KeyFileInvalid(f"line {number}: {error}") from error
            if record.id in self._lines:
                raise KeyFileInvalid(f"line {number}: the id {record.id!r} stands twice")
            self._lines[record.id] = text

    def __len__(self) -> int:
        """Count the records."""
        return len(self._lines)

    def find(self, key_id: str) -> KeyRecord | None:
        """Find the record of an id."""
        line = self._lines.get(key_id)
        return None if line is None else read_record(line)


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


def judge_key(text: str, table: KeyTable, now: Instant) -> KeyRecord | Deny:
    """Judge a presented key.

    The same refusal for an unknown id and for a wrong secret, after the same work: neither can be told from the
    other. Validity counts only once the secret held.
    """
    if len(text) > KEY_LIMIT or not text.isascii():
        return Deny(Reason.API_KEY_UNKNOWN)
    key_id, dot, _ = text.partition(".")
    record = table.find(key_id) if dot and len(key_id) <= ID_LIMIT else None
    expected = _NOBODY if record is None else record.sha256
    matches = hmac.compare_digest(hash_key(text), expected)
    if record is None or not matches:
        return Deny(Reason.API_KEY_UNKNOWN)
    return record if valid_now(record, now) else Deny(Reason.API_KEY_EXPIRED)


def valid_now(record: KeyRecord, now: Instant) -> bool:
    """Whether the record holds at this instant; its end is exclusive, as the `exp` of a token is."""
    if record.not_before is not None and now < record.not_before:
        return False
    return record.not_after is None or now < record.not_after


def hash_key(text: str) -> str:
    """Hash a whole key as key files hold it: SHA-256, lower-case hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


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
