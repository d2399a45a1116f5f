"""Reads the rule files of envoyproxy/ratelimit as they are.

A file names a `domain` and a tree of `descriptors`; each may bring a `rate_limit`. The messages contain the sentences
of that programme, so that whoever knows them recognises the fault, and add the file, line and column. All faults of
all files are reported at once.

What that programme accepts is accepted here; where it ignores something in silence there is a notice.
"""

from collections.abc import Iterable
from pathlib import Path

from ruamel.yaml.nodes import Node as Yaml
from ruamel.yaml.nodes import ScalarNode

from model.quota import Algorithm
from ratelimit.rules import Node, Rule, Rules, Unit, make_quota, name_entry
from ratelimit.source import Fault, Source, make_plain

ROOT = frozenset(("domain", "descriptors"))
DESCRIPTOR = frozenset(
    (
        "key",
        "value",
        "rate_limit",
        "descriptors",
        "shadow_mode",
        "quota_mode",
        "detailed_metric",
        "value_to_metric",
        "share_threshold",
        "metadata",
    )
)
LIMIT = frozenset(("unit", "requests_per_unit", "unlimited", "name", "replaces"))
REPLACES = frozenset(("name",))
KNOWN = ROOT | DESCRIPTOR | LIMIT

SUFFIXES = frozenset((".yaml", ".yml", ""))
"""What a rule file's name may end with; a key of a Kubernetes ConfigMap often has no suffix."""

DEEPEST = 64
"""Levels of descriptors. Envoy sends a handful of entries; only a YAML alias of itself goes deeper."""


class RulesInvalid(Exception):
    """The files cannot be used; `faults` says everything that is wrong with them."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(map(str, self.faults)))


def load_rules(directory: Path, *, merge_domains: bool = False, algorithm: Algorithm = Algorithm.WINDOW) -> Rules:
    """Read all rule files in a directory and below it, in the order of their paths.

    Names that begin with a dot are left out, as are the folders of a ConfigMap mount behind its links. Raises
    RulesInvalid with every fault of every file.
    """
    if not directory.is_dir():
        raise RulesInvalid([Fault(str(directory), 0, 0, "no such directory")])
    texts: list[tuple[str, str]] = []
    faults: list[Fault] = []
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory)
        if path.suffix not in SUFFIXES or any(part.startswith(".") for part in name.parts) or not path.is_file():
            continue
        try:
            texts.append((str(name), path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            faults.append(Fault(str(name), 0, 0, f"error loading config file: {error}"))
    return read_rules(texts, faults, merge_domains=merge_domains, algorithm=algorithm)


def read_rules(
    texts: Iterable[tuple[str, str]],
    faults: Iterable[Fault] = (),
    *,
    merge_domains: bool = False,
    algorithm: Algorithm = Algorithm.WINDOW,
) -> Rules:
    """Read rules from pairs of a file's name and its text.

    `faults` are those met before. With `merge_domains` several files may add to one domain; without, the second one is
    a fault. Raises RulesInvalid with every fault.
    """
    found = list(faults)
    notices: list[str] = []
    domains: dict[str, Node] = {}
    for name, text in texts:
        source = Source(name)
        _read_file(source, text, domains, merge_domains, algorithm)
        found += source.faults
        notices += map(str, source.notices)
    if found:
        raise RulesInvalid(found)
    return Rules(domains, tuple(notices))


def _read_file(source: Source, text: str, domains: dict[str, Node], merge: bool, algorithm: Algorithm) -> None:
    faults = len(source.faults)
    root = source.parse_text(text)
    if len(source.faults) > faults:
        return
    fields = source.read_mapping(root, ROOT, KNOWN)
    domain = source.read_text(fields.get("domain"))
    if not domain:
        # A misspelt domain is one fault, not two.
        if len(source.faults) == faults:
            source.faults.append(Fault(source.file, 1, 1, "config file cannot have empty domain"))
        return
    if domain in domains and not merge:
        source.blame(fields["domain"], f"duplicate domain '{domain}' in config file")
        return
    node = domains.setdefault(domain, Node(domain))
    _read_level(source, node, fields.get("descriptors"), algorithm, 1)


def _read_level(source: Source, parent: Node, descriptors: Yaml | None, algorithm: Algorithm, depth: int) -> None:
    if descriptors is not None and depth > DEEPEST:
        source.blame(descriptors, f"error loading config file: descriptors are nested more than {DEEPEST} deep")
        return
    for item in source.read_list(descriptors):
        faults = len(source.faults)
        fields = source.read_mapping(item, DESCRIPTOR, KNOWN)
        key, value = source.read_text(fields.get("key")), source.read_text(fields.get("value"))
        if not key:
            # A misspelt or misshapen key is one fault, not two.
            if len(source.faults) == faults:
                source.blame(item, "descriptor has empty key")
            continue
        if parent.has_child(key, value):
            path = f"{parent.path}.{name_entry(key, value)}"
            source.blame(item, f"duplicate descriptor composite key '{path}'")
            continue
        node = parent.add_child(key, value)
        _read_modes(source, node, key, fields)
        node.rule = _read_rule(source, node, fields, algorithm)
        _read_level(source, node, fields.get("descriptors"), algorithm, depth + 1)


def _read_modes(source: Source, node: Node, key: str, fields: dict[str, Yaml]) -> None:
    node.counted = source.read_flag(fields.get("value_to_metric"))
    node.shared = source.read_flag(fields.get("share_threshold"))
    if node.shared and "*" not in node.pattern:
        source.blame(
            fields["share_threshold"],
            "share_threshold can only be used with wildcard values (containing '*'), "
            f"but found key '{name_entry(key, node.pattern)}'",
        )


def _read_rule(source: Source, node: Node, fields: dict[str, Yaml], algorithm: Algorithm) -> Rule | None:
    shadow = source.read_flag(fields.get("shadow_mode"))
    soft = source.read_flag(fields.get("quota_mode"))
    detailed = source.read_flag(fields.get("detailed_metric"))
    metadata = fields.get("metadata")
    block = fields.get("rate_limit")
    # `rate_limit:` with nothing below it is no limit, as if the key were not there.
    limit = source.read_mapping(block, LIMIT, KNOWN)
    if block is None or not limit:
        for mode in ("shadow_mode", "quota_mode", "metadata"):
            if mode in fields:
                source.notice(fields[mode], f"'{mode}' has no effect without a rate_limit")
        return None
    name = source.read_text(limit.get("name"))
    unit, unlimited = _read_unit(source, block, limit)
    count = source.read_count(limit.get("requests_per_unit"))
    return Rule(
        path=node.path,
        # A rule without a unit is unlimited, or wrong: its quota counts nothing.
        quota=make_quota(name or node.label, count, unit or Unit.SECOND, algorithm, enforced=not shadow),
        unit=unit,
        source=source.place(block),
        unlimited=unlimited,
        shadow=shadow,
        soft=soft,
        name=name,
        replaces=_read_replaces(source, limit, name),
        detailed=detailed,
        metadata=_read_metadata(source, metadata),
    )


def _read_unit(source: Source, block: Yaml, limit: dict[str, Yaml]) -> tuple[Unit | None, bool]:
    """Read the unit and whether the limit is none at all; a limit has exactly one of the two."""
    text = source.read_text(limit.get("unit"))
    unlimited = source.read_flag(limit.get("unlimited"))
    if unlimited:
        if text:
            source.blame(limit["unit"], "should not specify rate limit unit when unlimited")
        return None, True
    unit = Unit.__members__.get(text.upper())
    if unit is None:
        units = ", ".join(name.lower() for name in Unit.__members__)
        source.blame(limit.get("unit", block), f"invalid rate limit unit '{text}', expected one of {units}")
    return unit, False


def _read_replaces(source: Source, limit: dict[str, Yaml], name: str) -> tuple[str, ...]:
    replaced: list[str] = []
    for item in source.read_list(limit.get("replaces")):
        other = source.read_text(source.read_mapping(item, REPLACES, KNOWN).get("name"))
        if not other:
            source.blame(item, "should not have an empty replaces entry")
        elif other == name:
            source.blame(item, "replaces should not contain name of same descriptor")
        else:
            replaced.append(other)
    return tuple(replaced)


def _read_metadata(source: Source, node: Yaml | None) -> dict[str, object] | None:
    if node is None or (isinstance(node, ScalarNode) and not node.value):
        return None
    plain = make_plain(node)
    if not isinstance(plain, dict):
        source.blame(node, "error parsing metadata: expected a mapping")
        return None
    return plain
