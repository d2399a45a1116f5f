"""One page of metrics from many workers: counters and histograms are summed, gauges keep the worker that they are of.

What a worker counted stays counted when it dies: its last report is added to what is left behind under its index, so
that sums never fall and the number of series does not grow with the number of deaths.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ratelimit.tally import CAPACITY, OTHERS
from sidecar.metrics import UNMATCHED

Labels = tuple[tuple[str, str], ...]
Samples = dict[tuple[str, Labels], float]


@dataclass(slots=True)
class Family:
    """One metric family in plain values: what goes over the line between worker and parent."""

    name: str
    kind: str
    text: str
    samples: Samples = field(default_factory=dict)


Report = list[Family]


def write_report(registry: CollectorRegistry) -> Report:
    """Read all families of a registry."""
    return [
        Family(
            metric.name,
            metric.type,
            metric.documentation,
            {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in metric.samples},
        )
        for metric in registry.collect()
    ]


class Merged(Collector):
    """The families of all workers as one collector.

    `reports` holds the last report of each live worker by its index, `own` what the parent says of itself.
    """

    def __init__(self) -> None:
        self.reports: dict[int, Report] = {}
        self.own: Report = []
        self._retired: dict[str, Family] = {}

    def retire(self, index: int) -> None:
        """Keep the sums of a worker that has died; its gauges go with it."""
        for family in self.reports.pop(index, []):
            if family.kind in SUMMED:
                known = self._retired.get(family.name)
                _add(self._retired, _fold_rules(family, known) if family.name == RULES else family)

    def know(self, routes: Collection[str]) -> None:
        """Take these route ids as labels: what the dead counted for routes that are gone is forgotten."""
        for family in self._retired.values():
            for key in [
                key for key in family.samples if dict(key[1]).get("route", UNMATCHED) not in {*routes, UNMATCHED}
            ]:
                del family.samples[key]

    def collect(self) -> Iterator[Metric]:
        """Merge what is known now."""
        families: dict[str, Family] = {}
        for family in (*self.own, *self._retired.values()):
            _add(families, family)
        for index, report in sorted(self.reports.items()):
            for family in report:
                _add(families, family if family.kind in SUMMED else _label(family, index))
        return map(_write_metric, families.values())


RULES = "wardgate_ratelimit_rule_hits"
"""The one family whose names are in the clients' hands (`ratelimit.tally`)."""
SUMMED = frozenset(("counter", "histogram"))


def _add(families: dict[str, Family], family: Family) -> None:
    total = families.setdefault(family.name, Family(family.name, family.kind, family.text))
    for key, value in family.samples.items():
        if not key[0].endswith("_created"):
            total.samples[key] = total.samples.get(key, 0.0) + value


def _fold_rules(family: Family, known: Family | None) -> Family:
    """Count rules that are new under the name of all others where as many are known as one worker may have."""
    names = {dict(labels)["rule"] for _, labels in known.samples} if known is not None else set()
    folded = Family(family.name, family.kind, family.text)
    for (name, labels), value in family.samples.items():
        told = dict(labels)
        if told["rule"] not in names and len(names) >= CAPACITY:
            told["rule"] = OTHERS
        names.add(told["rule"])
        key = name, tuple(sorted(told.items()))
        folded.samples[key] = folded.samples.get(key, 0.0) + value
    return folded


def _label(family: Family, index: int) -> Family:
    samples = {(name, (*labels, ("worker", str(index)))): value for (name, labels), value in family.samples.items()}
    return Family(family.name, family.kind, family.text, samples)


def _write_metric(family: Family) -> Metric:
    metric = Metric(family.name, family.text, family.kind)
    for (name, labels), value in family.samples.items():
        metric.add_sample(name, dict(labels), value)
    return metric
