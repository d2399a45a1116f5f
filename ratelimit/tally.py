"""Counters for each rule, of which there are never more than so many.

A rule with `detailed_metric` has a counter for every value that a client sends, so the names are in the clients' hands.
The table holds the names that are met most (space-saving: a newcomer takes the place and the rank of the least one);
what is counted for a name that has to go is added to the row of all others, so that sums stay true.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from heapq import heappop, heappush, heapreplace

from ratelimit.plan import Line
from ratelimit.question import Answer, Status

CAPACITY = 1_000
NEAR = 800
"""Thousandths of a limit above which a hit is near it: 0.8, as in envoyproxy/ratelimit."""

OTHERS = "(others)"


@dataclass(slots=True)
class Row:
    """Hits on one rule. Each hit is within the limit or over it.

    `near` are those within it that used the last fifth. `shadow` are those over it that a shadow rule let pass.
    """

    total: int = 0
    within: int = 0
    near: int = 0
    over: int = 0
    shadow: int = 0

    def add(self, other: "Row") -> None:
        """Add another row to this one."""
        self.total += other.total
        self.within += other.within
        self.near += other.near
        self.over += other.over
        self.shadow += other.shadow


class RuleTally:
    """Counts hits by rule. `capacity` is the largest number of names; `near` is in thousandths of the limit."""

    def __init__(self, capacity: int = CAPACITY, near: int = NEAR) -> None:
        self.others = Row()
        self.evicted = 0
        self._capacity = capacity
        self._near = near
        self._rows: dict[str, Row] = {}
        self._ranks: dict[str, int] = {}
        # (rank at the time of the push, name). A rank only grows, so the top of the heap is brought up to date when
        # it is looked at, and not at every hit.
        self._heap: list[tuple[int, str]] = []

    def record(self, lines: Sequence[Line], answer: Answer) -> None:
        """Count the descriptors of one answered request for which a rule holds."""
        for line, status in zip(lines, answer.statuses, strict=True):
            if line.match is not None and not line.replaced:
                self._count(line.match.metric, self._measure(line, status))

    def snapshot(self) -> dict[str, dict[str, int]]:
        """Copy the counters: name of the rule -> total, within, near, over, shadow. The rest stand in "(others)"."""
        copied = {name: _as_dict(row) for name, row in self._rows.items()}
        if self.evicted:
            copied[OTHERS] = _as_dict(self.others)
        return copied

    def _measure(self, line: Line, status: Status) -> Row:
        hits = line.hits
        if status.rule is None or not line.limited:
            return Row(hits, hits)
        if status.exceeded:
            return Row(hits, over=hits, shadow=hits if status.rule.shadow else 0)
        count = status.rule.quota.count
        near = count - status.remaining - count * self._near // 1000
        return Row(hits, hits, min(hits, max(0, near)))

    def _count(self, name: str, measured: Row) -> None:
        row = self._rows.get(name)
        if row is None:
            row = self._admit(name)
        row.add(measured)
        self._ranks[name] += measured.total

    def _admit(self, name: str) -> Row:
        """Make room for a name: the least of the others goes, and leaves its rank."""
        rank = 0
        if len(self._rows) >= self._capacity:
            rank, least = self._pop_least()
            self.others.add(self._rows.pop(least))
            del self._ranks[least]
            self.evicted += 1
        self._ranks[name] = rank
        heappush(self._heap, (rank, name))
        self._rows[name] = Row()
        return self._rows[name]

    def _pop_least(self) -> tuple[int, str]:
        heap = self._heap
        while heap[0][0] < self._ranks[heap[0][1]]:
            name = heap[0][1]
            heapreplace(heap, (self._ranks[name], name))
        return heappop(heap)


def _as_dict(row: Row) -> dict[str, int]:
    return {field.name: getattr(row, field.name) for field in fields(row)}
