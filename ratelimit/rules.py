"""The rules of a rate limit service and how a descriptor finds the one that holds for it.

A domain is a tree. Each level is chosen by one entry of the descriptor: first the rule for exactly this key and
value, then the wildcards of the key in the order in which they were written, then the rule for the key alone. A rule
holds only where the descriptor ends at its depth. That is the order of envoyproxy/ratelimit; unlike there, keys and
values are compared as they are and never joined, so ("a", "b_c") and ("a_b", "c") are two different things.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from model.instant import DAY, HOUR, MINUTE, SECOND, Duration
from model.quota import Algorithm, Quota

Entry = tuple[str, str]


class Unit(IntEnum):
    """The units of a limit; the numbers are those of `RateLimitResponse.RateLimit.Unit`."""

    SECOND = 1
    MINUTE = 2
    HOUR = 3
    DAY = 4
    MONTH = 5
    YEAR = 6
    WEEK = 7


PERIODS: dict[Unit, Duration] = {
    Unit.SECOND: SECOND,
    Unit.MINUTE: MINUTE,
    Unit.HOUR: HOUR,
    Unit.DAY: DAY,
    Unit.WEEK: 7 * DAY,
    Unit.MONTH: 30 * DAY,
    Unit.YEAR: 365 * DAY,
}
"""A month is 30 days and a year 365, as in envoyproxy/ratelimit."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One limit, and what is to happen when it is met.

    `path` is the rule's place in the tree ("messaging.message_type_marketing.to_number"), `source` its place in a file
    ("messaging.yaml:7"). `shadow` counts and never refuses; `soft` (quota_mode) refuses only where every soft limit of
    the request is used up. `replaces` names the rules that do not hold where this one does. `detailed` puts the values
    of the request into the metric's name. `metadata` goes to Envoy as dynamic metadata while there is room.
    """

    path: str
    quota: Quota
    unit: Unit | None = None
    source: str = ""
    unlimited: bool = False
    shadow: bool = False
    soft: bool = False
    name: str = ""
    replaces: tuple[str, ...] = ()
    detailed: bool = False
    metadata: Mapping[str, object] | None = None


@dataclass(slots=True)
class Node:
    """One level of the tree below one key and value.

    `path` is its place with the domain and `label` without; `pattern` is the value as written, "" for any. `shared`
    makes all values that fit the pattern spend from one counter. `counted` puts the value of the request into the
    metric's name. `exact`, `wild` and `any` are the nodes below, by (key, value), by key, and by key.
    """

    path: str
    label: str = ""
    pattern: str = ""
    rule: Rule | None = None
    shared: bool = False
    counted: bool = False
    exact: dict[Entry, "Node"] = field(default_factory=dict)
    wild: dict[str, list[tuple[tuple[str, ...], "Node"]]] = field(default_factory=dict)
    any: dict[str, "Node"] = field(default_factory=dict)

    def has_child(self, key: str, value: str) -> bool:
        """Tell whether a node for the key and the value as written ("" for any) stands here already."""
        return key in self.any if not value else (key, value) in self.exact

    def has_children(self) -> bool:
        """Tell whether the tree goes on below."""
        return bool(self.any or self.exact)

    def add_child(self, key: str, value: str) -> "Node":
        """Add and return the node for a key and a value, "" for any; a `*` in the value fits any run of characters."""
        name = name_entry(key, value)
        node = Node(f"{self.path}.{name}", f"{self.label}.{name}" if self.label else name, value)
        if not value:
            self.any[key] = node
            return node
        # A wildcard stands under its own text too, so that a second one of the same text is seen as a duplicate; a
        # request whose value is that very text fits the wildcard anyway.
        self.exact[key, value] = node
        if "*" in value:
            self.wild.setdefault(key, []).append((tuple(value.split("*")), node))
        return node

    def find_child(self, entry: Entry) -> "Node | None":
        """Find the node for an entry of a descriptor: exact, then wildcards as written, then the key alone."""
        found = self.exact.get(entry)
        if found is not None:
            return found
        key, value = entry
        for parts, node in self.wild.get(key, ()):
            if fits_wildcard(parts, value):
                return node
        return self.any.get(key)


@dataclass(frozen=True, slots=True)
class Match:
    """The rule that holds for a descriptor, the key of its counter and the name of its metric.

    The key starts with the domain and the unit: a rule whose unit is changed starts with a counter of its own.
    """

    rule: Rule
    key: tuple[str, ...]
    metric: str


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules, by domain. `notices` are things in the files that have no effect and were probably meant to."""

    domains: Mapping[str, Node] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    def find_match(self, domain: str, entries: Sequence[Entry]) -> Match | None:
        """Find the rule for a descriptor; None where the domain or the descriptor has none."""
        trail = self.walk_tree(domain, entries)
        if not trail or len(trail) != len(entries) or (rule := trail[-1].rule) is None:
            return None
        key = [domain, rule.unit.name if rule.unit else ""]
        for (name, value), node in zip(entries, trail, strict=True):
            key += (name, node.pattern if node.shared else value)
        return Match(rule, tuple(key), _name_metric(domain, entries, trail, rule))

    def walk_tree(self, domain: str, entries: Sequence[Entry]) -> list[Node]:
        """List the nodes that the entries lead to, one an entry; shorter where an entry leads nowhere."""
        node = self.domains.get(domain)
        trail: list[Node] = []
        for entry in entries:
            node = node.find_child(entry) if node is not None else None
            if node is None:
                break
            trail.append(node)
        return trail

    def make_override(self, domain: str, entries: Sequence[Entry], count: int, unit: Unit) -> Match | None:
        """Make the rule that a descriptor brings with it (`RateLimitDescriptor.limit`): it wins over every rule.

        It is enforced whatever the rules say of shadow and replacement. None where the domain is not known. Its name
        is made of the descriptor's keys alone: a value may be a secret.
        """
        if domain not in self.domains:
            return None
        label = ".".join(key for key, _ in entries)
        key = [domain, unit.name]
        for entry in entries:
            key += entry
        rule = Rule(f"{domain}.{label}", make_quota(label, count, unit), unit, source="request")
        return Match(rule, tuple(key), rule.path)


def make_quota(
    name: str, count: int, unit: Unit, algorithm: Algorithm = Algorithm.WINDOW, *, enforced: bool = True
) -> Quota:
    """Make the quota of `count` requests a unit; it is a sliding window where nothing else is asked for."""
    return Quota(name, count, PERIODS[unit], burst=count, algorithm=algorithm, enforced=enforced)


def unenforce_quota(quota: Quota) -> Quota:
    """Make a quota one that is counted beside the others and refuses nothing."""
    return replace(quota, enforced=False) if quota.enforced else quota


def name_entry(key: str, value: str) -> str:
    """Name an entry in a path or in a metric: the key, and the value where there is one."""
    return f"{key}_{value}" if value else key


def fits_wildcard(parts: Sequence[str], value: str) -> bool:
    """Tell whether a value fits a pattern that was split at its `*`; each `*` fits zero or more characters.

    Linear in the value: the first find of each middle part is as good as any later one.
    """
    first, *middle, last = parts
    if len(value) < len(first) + len(last) or not value.startswith(first) or not value.endswith(last):
        return False
    position, end = len(first), len(value) - len(last)
    for part in middle:
        found = value.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True


def _name_metric(domain: str, entries: Sequence[Entry], trail: Sequence[Node], rule: Rule) -> str:
    """Name the metric of a match: the rule's path, with the request's own values where they are asked for.

    They are by `detailed_metric` of the rule for all levels, and by `value_to_metric` for one. A shared counter is one
    series, so its pattern stands there whatever else is asked for.
    """
    if not rule.detailed and not any(node.counted for node in trail):
        return rule.path
    parts = [domain]
    for (key, value), node in zip(entries, trail, strict=True):
        told = not node.shared and (rule.detailed or node.counted)
        parts.append(name_entry(key, value if told else node.pattern))
    return ".".join(parts)
