"""The composition root: one worker's services, wired, and the one place where a new snapshot is taken up."""

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

from authz.resident import Live, Resident
from authz.service import METHOD as CHECK
from authz.service import AuthorizationService
from extproc.service import ProcessorService
from model.instant import SECOND, Instant
from model.snapshot import Snapshot, Store
from ratelimit.limiter import OpenLimiter, open_limiter
from ratelimit.rules import Rules
from ratelimit.service import RateLimitService
from sidecar.explain import explain_limits, explain_rates
from sidecar.keys import RingFile
from sidecar.metrics import Gauge, Metrics
from sidecar.places import Keeper
from sidecar.pool import ALONE, Company
from sidecar.question import RateQuestion
from sidecar.rates import Rates
from sidecar.record import Recorder
from sidecar.secret import unlock_store
from sidecar.server import Method
from sidecar.sources import Sources

LIMIT = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
PROCESS = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
SERVICES = tuple(path.split("/")[1] for path in (CHECK, LIMIT, PROCESS))
LIMITING = LIMIT.split("/")[1]


class Sidecar:
    """The three services over one snapshot, which `apply` replaces as a whole or not at all."""

    def __init__(
        self,
        sources: Sources,
        rings: RingFile,
        recorder: Recorder,
        metrics: Metrics,
        clock: Callable[[], Instant],
        company: Company = ALONE,
    ) -> None:
        self._sources = sources
        self._rings = rings
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        self._live: Live | None = None
        self._company = company
        self._store: Store | None = None
        self._limiter = open_limiter(Store(), clock)
        self._keeper = Keeper(self._limiter, clock)
        self._processor = ProcessorService({}, recorder.processing, self._keeper.hold)
        self._authz = AuthorizationService(None, self._limiter, clock, recorder.authorization)
        self._rates = RateLimitService(Rules(), self._limiter, clock, recorder.limiting)
        self.snapshot: Snapshot | None = None
        self.loaded: Instant = 0

    def methods(self) -> list[Method]:
        """List the methods of the three services."""
        return [
            Method(CHECK, unary=self._check),
            Method(LIMIT, unary=self._rates.should_rate_limit),
            Method(PROCESS, stream=self._processor.process),
        ]

    async def apply(self, snapshot: Snapshot) -> None:
        """Take up a snapshot. Where anything of it cannot be used this raises, and the old one stays as it was.

        Raises ValueError, KeyError or KeysUnusable. Counters stay, also those of a limit whose number changed; only
        another store begins anew.
        """
        ring = self._rings.current(snapshot.context, self._clock())
        prepared = await self._sources.prepare(snapshot)
        live = self._live or Live(ring=ring)
        self._sources.furnish(live)
        resident = await asyncio.to_thread(Resident, snapshot, live)  # a large policy takes tens of milliseconds
        limiter = await self._open_limiter(snapshot.store)
        try:
            await self._sources.fetch(prepared, resident)
        except BaseException:
            if limiter is not self._limiter:
                await limiter.close()  # nobody else knows of it
            raise
        # from here to the end without an await: a call sees the old policy or the new one
        live.ring = ring
        self._sources.commit(prepared, live)
        former, self._live, self._store = self._limiter, live, snapshot.store
        self._serve(resident, limiter)
        self._processor.policies = {id_: route for id_, route in snapshot.routes.items() if route.response}
        self._metrics.know(snapshot.routes)
        self.snapshot, self.loaded = snapshot, self._clock()
        if former is not limiter:
            self._sources.part(former.close)

    async def run_rates(self, rates: Rates) -> None:
        """Run the rate limit service as the command line says, before anything is asked. Raises ValueError.

        Until `apply_rules` its questions have no answer.
        """
        self._rates.rules = None
        self._rates.options = rates.options
        self._limiter = self._rates.limiter = await self._open_limiter(rates.store)
        self._store = rates.store

    def apply_rules(self, rules: Rules) -> None:
        """Take up other rules of the rate limit service."""
        self._rates.rules = rules

    def rotate(self) -> None:
        """Look whether the context keys are due. Raises KeysUnusable; the keys at hand go on signing then."""
        if self._live is not None and self.snapshot is not None:
            self._live.ring = self._rings.current(self.snapshot.context, self._clock())

    def press(self, saturation: float) -> None:
        """Say how near the process is to its limit, 0 to 1."""
        if self._live is not None:
            self._live.saturation = saturation

    def jwks(self) -> str:
        """Write the caller context's public keys as a JWK set."""
        return json.dumps(self._live.ring.jwks() if self._live is not None else {"keys": []})

    def counters(self) -> Iterator[Gauge]:
        """Give the counts of the rate limit service, whose names are bounded by its tally."""
        for rule, row in self._rates.tally.snapshot().items():
            for result, hits in row.items():
                text = "Hits on a rule: each within the limit or over it; some near it; some that a shadow let pass."
                yield "ratelimit_rule_hits", text, {"rule": rule, "result": result}, float(hits)
        for kind, count in self._rates.errors.items():
            yield "ratelimit_errors", "Calls of the rate limit service without an answer.", {"kind": kind}, float(count)

    def gauges(self) -> Iterator[Gauge]:
        """Give what a scrape asks for."""
        now = self._clock()
        yield from self._sources.gauges()
        yield "places_held", "Exchanges whose places of concurrent limits are held.", {}, float(len(self._keeper))
        mode = self._limiter.health()
        yield "limiter_mode", "1 for the mode in which limits are counted.", {"mode": mode}, 1.0
        if self.snapshot is not None:
            yield "snapshot_info", "1 for the policy in force.", {"version": self.snapshot.version}, 1.0
            yield "snapshot_age_seconds", "Time since the policy was taken up.", {}, (now - self.loaded) / SECOND

    async def explain(self, question: Mapping[str, str]) -> dict[str, object]:
        """Say which limits a caller meets on a route and what is left of them. Raises ValueError."""
        if self._authz.resident is None:
            raise ValueError("no policy yet")
        return await explain_limits(self._authz.resident, self._limiter, question, self._clock())

    async def explain_rates(self, question: RateQuestion) -> dict[str, object]:
        """Say which rules a question to the rate limit service meets and what is left of them. Raises ValueError."""
        rates = self._rates
        if rates.rules is None:
            raise ValueError("no rules yet")
        return await explain_rates(rates.rules, self._limiter, question, self._clock(), all_soft=rates.options.all_soft)

    def part(self) -> None:
        """Say that this worker goes: what still runs through it goes on without it."""
        self._keeper.part()

    async def close(self) -> None:
        """Stop what runs in the background; leases go back to the store."""
        await self._sources.close()
        await self._limiter.close()

    async def _open_limiter(self, store: Store) -> OpenLimiter:
        if store == self._store:
            return self._limiter
        settings, company = unlock_store(store, os.environ), self._company
        limiter = open_limiter(
            settings, self._clock, self._recorder.limiter_mode, company.pool, instances=company.workers
        )
        await limiter.start()
        return limiter

    def _serve(self, resident: Resident | None, limiter: OpenLimiter) -> None:
        self._limiter = self._rates.limiter = self._keeper.limiter = limiter
        self._authz = AuthorizationService(resident, limiter, self._clock, self._recorder.authorization)

    def _check(self, data: bytes) -> bytes | Coroutine[Any, Any, bytes]:
        return self._authz.check(data)
