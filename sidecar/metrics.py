"""What Prometheus reads: counts that a decision adds to in one dictionary step, and gauges that are asked when scraped.

Labels are bounded by the policy, never by traffic: a route is an id of the snapshot or "unmatched".
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from model.instant import MICROSECOND, MILLISECOND, SECOND, Duration

UNMATCHED = "unmatched"
BOUNDS: tuple[Duration, ...] = (
    100 * MICROSECOND,
    250 * MICROSECOND,
    500 * MICROSECOND,
    MILLISECOND,
    2_500 * MICROSECOND,
    5 * MILLISECOND,
    10 * MILLISECOND,
    25 * MILLISECOND,
    50 * MILLISECOND,
    100 * MILLISECOND,
    250 * MILLISECOND,
    SECOND,
)

Gauge = tuple[str, str, dict[str, str], float]
"""Name without the prefix, help text, labels, value; of a counter that is kept elsewhere likewise."""

_Family = TypeVar("_Family", CounterMetricFamily, GaugeMetricFamily)


@dataclass(slots=True)
class _Latency:
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: Duration = 0

    def add(self, took: Duration) -> None:
        self.buckets[bisect_left(BOUNDS, took)] += 1
        self.total += took


class Metrics(Collector):
    """The counters of one process. `gauges` and `counters` are asked at each scrape and must be quick."""

    def __init__(
        self, gauges: Callable[[], Iterable[Gauge]] = tuple, counters: Callable[[], Iterable[Gauge]] = tuple
    ) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        self._gauges = gauges
        self._counters = counters
        self._routes: frozenset[str] = frozenset()
        self._decisions: dict[tuple[str, str, str, int], int] = {}
        self._latency: dict[str, _Latency] = {}
        self._counts: dict[tuple[str, str], int] = {}

    def ask(self, gauges: Callable[[], Iterable[Gauge]]) -> None:
        """Ask `gauges` at each scrape from now on."""
        self._gauges = gauges

    def know(self, routes: Collection[str]) -> None:
        """Take these route ids as labels; the series of routes that are gone end."""
        self._routes = frozenset(routes)
        for key in [key for key in self._decisions if key[1] != UNMATCHED and key[1] not in self._routes]:
            del self._decisions[key]

    def decision(self, service: str, route: str | None, outcome: str, status: int, took: Duration) -> None:
        """Count one decision; `outcome` is "allow" or the value of a Reason, `took` in nanoseconds."""
        key = (service, route if route is not None and route in self._routes else UNMATCHED, outcome, status)
        self._decisions[key] = self._decisions.get(key, 0) + 1
        latency = self._latency.get(service)
        if latency is None:
            latency = self._latency[service] = _Latency()
        latency.add(took)

    def count(self, name: str, subject: str = "", amount: int = 1) -> None:
        """Add to a counter of rare events. `subject` must come from the policy (an issuer id), never from traffic."""
        self._counts[name, subject] = self._counts.get((name, subject), 0) + amount

    def collect(self) -> Iterator[Metric]:
        """All families, for a scrape."""
        yield self._collect_decisions()
        yield self._collect_latency()
        yield from self._collect_counts()
        yield from _group(self._counters(), CounterMetricFamily)
        yield from _group(self._gauges(), GaugeMetricFamily)

    def _collect_decisions(self) -> Metric:
        family = CounterMetricFamily(
            "wardgate_decisions",
            "Decisions by service, route, reason (or allow) and HTTP status.",
            labels=("service", "route", "reason", "status"),
        )
        for (service, route, outcome, status), count in list(self._decisions.items()):
            family.add_metric((service, route, outcome, str(status)), count)
        return family

    def _collect_latency(self) -> Metric:
        family = HistogramMetricFamily(
            "wardgate_decision_seconds",
            "Time from the bytes of a call to the bytes of its answer.",
            labels=("service",),
        )
        for service, latency in list(self._latency.items()):
            family.add_metric((service,), list(_cumulate(latency.buckets)), latency.total / SECOND)
        return family

    def _collect_counts(self) -> Iterator[Metric]:
        families: dict[str, CounterMetricFamily] = {}
        for (name, subject), count in list(self._counts.items()):
            family = families.get(name)
            if family is None:
                family = families[name] = CounterMetricFamily(
                    f"wardgate_{name}", f"Count of {name.replace('_', ' ')}.", labels=("subject",)
                )
            family.add_metric((subject,), count)
        yield from families.values()


def _group(samples: Iterable[Gauge], kind: type[_Family]) -> Iterator[_Family]:
    families: dict[str, _Family] = {}
    for name, text, labels, value in samples:
        family = families.get(name)
        if family is None:
            family = families[name] = kind(f"wardgate_{name}", text, labels=tuple(labels))
        family.add_metric(tuple(labels.values()), value)
    yield from families.values()


def _cumulate(buckets: list[int]) -> Iterator[tuple[str, float]]:
    """Bucket pairs as Prometheus wants them: upper bound in seconds, count of all up to it."""
    running = 0
    bounds = [*(str(bound / SECOND) for bound in BOUNDS), "+Inf"]
    for bound, count in zip(bounds, buckets, strict=True):
        running += count
        yield bound, running
