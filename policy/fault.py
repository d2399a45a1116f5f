"""Faults of a gateway document: where they stand, what was found and what was expected."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One fault. `line` and `column` count from 1; `where` is the path inside the document ("routes[2].timeout")."""

    file: str
    line: int
    column: int
    where: str
    found: str
    expected: str

    def __str__(self) -> str:
        """Write the fault as one line that editors can jump to."""
        return f"{self.file}:{self.line}:{self.column}: {self.where}: found {self.found}, expected {self.expected}"


class Faults(Exception):
    """A document that cannot be used, with every fault that was found, in the order of the file."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(set(faults)))
        super().__init__("\n".join(map(str, self.faults)))


def show_value(value: object) -> str:
    """Show a found value in at most 80 characters, control characters escaped."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
