"""What has been revoked: a resident list that every decision asks and no decision waits for.

An entry names a fact of a credential, never the credential's text: two spellings of one token would need two entries,
and an ECDSA signature can be written in two ways. Pure: it is fed from outside (feed.py) and asked with an instant.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from model.instant import SECOND, Instant

NEVER: Instant = 2**63 - 1
"""An instant after all others: the end of an entry that is kept until it is taken back."""


class Subject(StrEnum):
    """What an entry can revoke, and in brackets what its two names hold."""

    TOKEN = "token"  # noqa: S105 - a kind, not a secret; (iss, jti)
    SUBJECT = "subject"  # (iss, sub)
    CLIENT = "client"  # ("", client_id)
    KEY = "key"  # (iss, kid)
    API_KEY = "api-key"  # ("", key id)
    CERTIFICATE = "certificate"  # (issuer as RFC 4514, serial in hex)
    ORGANISATION = "organisation"  # ("", organizationIdentifier)


class EntryInvalid(ValueError):
    """A line is no denylist entry; the text says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One revocation.

    `before`: only what was issued at or before this instant is revoked (None: whatever its age, and credentials
    without an issue time always). `expires`: the entry may be forgotten then; the credential's own expiry plus leeway
    where it has one, else NEVER.
    """

    subject: Subject
    name: str
    scope: str = ""
    before: Instant | None = None
    expires: Instant = NEVER

    def line(self) -> str:
        """Write the entry as one line of JSON; times are whole seconds since the epoch, rounded up."""
        members: dict[str, str | int] = {"subject": self.subject.value, "name": self.name}
        if self.scope:
            members["scope"] = self.scope
        if self.before is not None:
            members["before"] = -(-self.before // SECOND)
        if self.expires != NEVER:
            members["expires"] = -(-self.expires // SECOND)
        return json.dumps(members, separators=(",", ":"))


def widest(known: Entry, entry: Entry) -> Entry:
    """Join two entries for the same thing into one that revokes what either does."""
    before = None if known.before is None or entry.before is None else max(known.before, entry.before)
    return replace(entry, before=before, expires=max(known.expires, entry.expires))


_MEMBERS = frozenset(("subject", "name", "scope", "before", "expires"))


def read_entry(line: str | bytes) -> Entry:
    """Read one line of JSON as Entry.line writes it. Raises EntryInvalid, which never quotes the line."""
    try:
        members = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise EntryInvalid("not JSON") from error
    if not isinstance(members, dict):
        raise EntryInvalid("not a JSON object")
    if unknown := sorted(set(members) - _MEMBERS):
        raise EntryInvalid(f"unknown member {unknown[0][:40]!r}")
    name, scope = members.get("name"), members.get("scope", "")
    if not isinstance(name, str) or not name or not isinstance(scope, str):
        raise EntryInvalid("name must be a string that is not empty, scope a string")
    try:
        subject = Subject(str(members.get("subject")))
    except ValueError as error:
        raise EntryInvalid("subject must be one of " + ", ".join(Subject)) from error
    before = _instant(members, "before")
    expires = _instant(members, "expires")
    return Entry(subject, name, scope, before, NEVER if expires is None else expires)


def _instant(members: dict[str, object], name: str) -> Instant | None:
    value = members.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < NEVER // SECOND:
        raise EntryInvalid(f"{name} must be whole seconds since the epoch")
    return value * SECOND


_Key = tuple[str, str]
_Mark = tuple[Instant | None, Instant]


@dataclass(slots=True)
class Denylist:
    """The resident list: one dictionary a subject, so that a question costs the same at ten entries and at a million.

    `version` is the position in the feed that the list has been read up to, "" before anything was read.
    """

    version: str = ""
    marks: dict[Subject, dict[_Key, _Mark]] = field(default_factory=lambda: {subject: {} for subject in Subject})

    def __len__(self) -> int:
        """Count the entries."""
        return sum(len(marks) for marks in self.marks.values())

    def __bool__(self) -> bool:
        """Whether anything is listed at all."""
        return any(self.marks.values())

    def copy(self) -> "Denylist":
        """Make a list that this one no longer changes, so that another thread can write it down."""
        return Denylist(self.version, {subject: dict(marks) for subject, marks in self.marks.items()})

    def add(self, entry: Entry) -> None:
        """Take an entry in. Of two for the same thing the wider one stays: a revocation is never weakened."""
        marks = self.marks[entry.subject]
        key = (entry.scope, entry.name)
        known = marks.get(key)
        if known is None:
            marks[key] = (entry.before, entry.expires)
            return
        wider = widest(Entry(entry.subject, entry.name, entry.scope, *known), entry)
        marks[key] = (wider.before, wider.expires)

    def remove(self, entry: Entry) -> None:
        """Take an entry back, by what it names."""
        self.marks[entry.subject].pop((entry.scope, entry.name), None)

    def revokes(self, subject: Subject, scope: str, name: str, issued: Instant | None, now: Instant) -> bool:
        """Whether a fact is revoked at this instant. `issued` is when the credential was issued, None if unknown."""
        marks = self.marks[subject]
        if not marks or not name:
            return False
        mark = marks.get((scope, name))
        if mark is None or mark[1] < now:
            return False
        return mark[0] is None or issued is None or issued <= mark[0]

    def forget(self, now: Instant) -> int:
        """Drop the entries that have expired; returns how many. For a background task, it walks the whole list."""
        dropped = 0
        for marks in self.marks.values():
            old = [key for key, mark in marks.items() if mark[1] < now]
            for key in old:
                del marks[key]
            dropped += len(old)
        return dropped

    def lines(self) -> Iterator[str]:
        """Write the list, one entry a line, as read_list reads it."""
        for subject, marks in self.marks.items():
            for (scope, name), (before, expires) in marks.items():
                yield Entry(subject, name, scope, before, expires).line()


def read_list(lines: Iterable[str | bytes], version: str = "") -> Denylist:
    """Read a whole list; empty lines and lines that start with # are passed over. Raises EntryInvalid with the line."""
    denylist = Denylist(version)
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text[:1] in ("#", b"#"):
            continue
        try:
            denylist.add(read_entry(text))
        except EntryInvalid as error:
            raise EntryInvalid(f"line {number}: {error}") from error
    return denylist
