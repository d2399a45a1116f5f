"""A bounded memory of recent results: two generations instead of a list of uses, so that a hit costs one look-up."""

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Holds at most `capacity` entries (at least 2) and forgets what was not asked for in the last half of them.

    New entries go into the young generation. When that is half of the capacity, it becomes the old one and the former
    old one is dropped whole; a hit in the old generation moves the entry to the young one.
    """

    __slots__ = ("_half", "_old", "_young")

    def __init__(self, capacity: int) -> None:
        self._half = max(1, capacity // 2)
        self._young: dict[Key, Value] = {}
        self._old: dict[Key, Value] = {}

    def get(self, key: Key) -> Value | None:
        """Return the value, None where it is not (or no longer) known."""
        value = self._young.get(key)
        if value is None and self._old:
            value = self._old.pop(key, None)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: Key, value: Value) -> None:
        """Remember the value, in place of an older one under the same key."""
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._young[key] = value

    def drop(self, key: Key) -> None:
        """Forget the key."""
        self._young.pop(key, None)
        self._old.pop(key, None)

    def __len__(self) -> int:
        return len(self._young) + len(self._old)
