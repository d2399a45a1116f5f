"""Many API keys in little memory, in a form that can be written to a file and mapped by several processes.

The table is an index and the records, as one run of bytes each. The index has at least twice as many slots as there are
records; a slot holds where a record begins, one more than that, or 0. An id is looked for from the slot on that its
hash names until it is found or a slot is empty. The hash is keyed with a salt that depends on all records: whoever may
choose an id cannot choose it so that the look-ups of others become slow, without knowing what stands in their records.

A record is the length of its id in one byte, the id, the length of its line in four, and its line of the key file.
Integers are in the order of the machine: what is kept on disk is for the processes of one machine.
"""

import hashlib
import struct
from array import array
from collections.abc import Iterable, Iterator

from authz.keyrecord import KeyRecord, read_record

_MAGIC = b"wg-keys1"
_HEADER = struct.Struct("=8s16sQQ")
_LENGTH = struct.Struct("=I")
_SALT = 16
_DIGEST = 24


class KeyFileInvalid(ValueError):
    """A line of a key file is no record; the text names line and fault and never quotes a hash."""


class KeyTableInvalid(ValueError):
    """Bytes that are no key table, or were spoiled since it was written."""


class KeyTable:
    """Records of API keys, found by id and read when they are asked for; a look-up costs the same at any number.

    `slots` are the index, of 64 bits each; `index_keys` and `open_table` make them.
    """

    def __init__(self, salt: bytes, count: int, slots: memoryview, records: memoryview) -> None:
        self._salt = salt
        self._count = count
        self._slots = slots
        self._records = records

    def parts(self) -> Iterator[bytes | memoryview]:
        """Give the bytes to be kept, in order."""
        head = _HEADER.pack(_MAGIC, self._salt, self._count, len(self._slots))
        parts = (head, self._slots.cast("B"), self._records)
        yield _digest(*parts)
        yield from parts

    def __len__(self) -> int:
        """Count the records."""
        return self._count

    def find(self, key_id: str) -> KeyRecord | None:
        """Find the record of an id."""
        name = key_id.encode()
        place = self._slots[self.seek(name)]
        if not place:
            return None
        start = place + len(name)
        (length,) = _LENGTH.unpack_from(self._records, start)
        return read_record(bytes(self._records[start + _LENGTH.size : start + _LENGTH.size + length]))

    def seek(self, name: bytes) -> int:
        """Find the slot of an id: the one that holds it, or the empty one where it would be."""
        slots, last = self._slots, len(self._slots) - 1
        slot = int.from_bytes(hashlib.blake2b(name, digest_size=8, key=self._salt).digest(), "little") & last
        while (place := slots[slot]) and self.name(place - 1) != name:
            slot = slot + 1 & last
        return slot

    def name(self, start: int) -> bytes:
        """Read the id of the record that begins here."""
        records = self._records
        return bytes(records[start + 1 : start + 1 + records[start]])


def index_keys(lines: Iterable[bytes] = ()) -> KeyTable:
    """Index the lines of a key file. Raises KeyFileInvalid for the first line that is no record."""
    records, starts, numbers = _read_lines(lines)
    slots = memoryview(array("Q", bytes(8 * _room(len(starts)))))
    salt = hashlib.blake2b(records, digest_size=_SALT).digest()
    table = KeyTable(salt, len(starts), slots, memoryview(records))
    for number, start in zip(numbers, starts, strict=True):
        name = table.name(start)
        slot = table.seek(name)
        if slots[slot]:
            raise KeyFileInvalid(f"line {number}: the id {name.decode()!r} stands twice")
        slots[slot] = start + 1
    return table


def open_table(view: memoryview) -> KeyTable:
    """Open a table over the bytes that its `parts` gave, without copying them. Raises KeyTableInvalid."""
    digest, body = view[:_DIGEST], view[_DIGEST:]
    if len(body) < _HEADER.size or _digest(body) != digest:
        raise KeyTableInvalid("not a key table, or spoiled")
    magic, salt, count, room = _HEADER.unpack_from(body)
    if magic != _MAGIC:
        raise KeyTableInvalid("a key table of another version")
    slots = body[_HEADER.size : _HEADER.size + 8 * room]
    return KeyTable(salt, count, slots.cast("Q"), body[_HEADER.size + 8 * room :])


def _read_lines(lines: Iterable[bytes]) -> tuple[bytearray, "array[int]", "array[int]"]:
    """Check every line: the records one after the other, where each begins, and on which line it stood."""
    records, starts, numbers = bytearray(), array("Q"), array("Q")
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(b"#"):
            continue
        try:
            name = read_record(text).id.encode()
        except ValueError as error:
            raise KeyFileInvalid(f"line {number}: {error}") from error
        starts.append(len(records))
        numbers.append(number)
        records += bytes((len(name),)) + name + _LENGTH.pack(len(text)) + text
    return records, starts, numbers


def _room(count: int) -> int:
    """Choose how many slots: a power of two, at least half of them empty."""
    return 1 << max(3, (2 * count).bit_length())


def _digest(*parts: bytes | memoryview) -> bytes:
    found = hashlib.blake2b(digest_size=_DIGEST)
    for part in parts:
        found.update(part)
    return found.digest()
