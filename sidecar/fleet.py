"""What the admin side shows: all workers as one."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from sidecar.follow import Follower
from sidecar.link import LinkClosed
from sidecar.logs import Journal
from sidecar.merge import write_report
from sidecar.metrics import Gauge, Metrics
from sidecar.question import RateQuestion
from sidecar.supervisor import Supervisor


class Fleet:
    """The workers of one parent, as `admin.Operated`."""

    def __init__(self, supervisor: Supervisor, follower: Follower, journal: Journal) -> None:
        self._supervisor = supervisor
        self._follower = follower
        self._journal = journal
        self._own = Metrics(self._gauges)
        self._registry = CollectorRegistry()
        self._registry.register(supervisor.merged)

    async def ready(self) -> str | None:
        """Give None when every worker is ready and Envoy's files are written, else what is missing."""
        if self._supervisor.stopping:
            return "draining"
        for seat in await self._supervisor.look():
            missing = seat.report.get("ready", "no answer")
            if missing is not None:
                return f"worker {seat.index}: {missing}"
        return None if self._follower.published.is_set() else "Envoy's files are not written yet"

    async def metrics_text(self) -> bytes:
        """Write the Prometheus text format, from reports of now."""
        await self._supervisor.look()
        self._supervisor.merged.own = write_report(self._own.registry)
        return generate_latest(self._registry)

    async def jwks(self) -> str:
        """Write the caller context's public keys; the workers share one ring."""
        for seat in await self._supervisor.look():
            if seat.report:
                return str(seat.report["jwks"])
        return '{"keys": []}'

    async def snapshot(self) -> dict[str, object]:
        """Describe the policy in force, the faults that stand, and each worker."""
        seats = await self._supervisor.look()
        shown = next((seat.report["snapshot"] for seat in seats if seat.report), {"gateway": None, "version": None})
        return {
            **shown,
            "last_error": "\n".join(self._follower.errors.values()) or None,
            "workers": [
                {
                    "index": seat.index,
                    "address": seat.address,
                    "pid": seat.process.pid if seat.process is not None else None,
                    "ready": seat.report.get("ready", "no answer") is None,
                    "version": seat.report["snapshot"]["version"] if seat.report else None,
                    "deaths": seat.deaths,
                }
                for seat in seats
            ],
        }

    async def explain(self, question: Mapping[str, str]) -> dict[str, object]:
        """Have a worker say which limits a caller meets on a route and what is left of them. Raises ValueError."""
        return await self._ask("explain", dict(question))

    async def explain_rates(self, question: RateQuestion) -> dict[str, object]:
        """Have a worker say which rules a question to the rate limit service meets. Raises ValueError."""
        return await self._ask("explain rates", question)

    async def _ask(self, kind: str, question: object) -> dict[str, object]:
        for seat in self._supervisor.seats:
            if seat.link is not None:
                try:
                    explained: dict[str, object] = await seat.link.ask(kind, question)
                except (LinkClosed, TimeoutError):
                    continue
                return explained
        raise ValueError("no worker answers")

    def _gauges(self) -> Iterator[Gauge]:
        yield (
            "last_edit_refused",
            "1 while the last edit of a file stands refused.",
            {},
            float(bool(self._follower.errors)),
        )
        for source, count in self._follower.failures.items():
            yield "edits_refused", "Edits that were refused since the start.", {"source": source}, float(count)
        yield "parent_log_lines_dropped", "Lines that the parent could not write.", {}, float(self._journal.dropped)
        for seat in self._supervisor.seats:
            yield "worker_deaths", "Processes that a seat has lost.", {"worker": str(seat.index)}, float(seat.deaths)
