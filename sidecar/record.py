"""What is kept of a decision: a count, a latency and a line, in one place for all three services.

The fields of a line are named here, one by one; nothing else of a request is ever written.
"""

from authz.keyset import KeySet
from extproc.change import Event, Replace, Reply
from model.instant import Duration, Instant
from model.reason import TABLE, Reason
from model.request import Request
from model.verdict import Allow, Verdict
from ratelimit.question import Answer, Question
from sidecar import clock
from sidecar.logs import Journal
from sidecar.metrics import Metrics

ALLOW = "allow"
PROBLEM = "problem"


class Recorder:
    """Writes to the metrics and to the journal. Its methods are handed to the services as plain callables."""

    def __init__(self, metrics: Metrics, journal: Journal) -> None:
        self._metrics = metrics
        self._journal = journal
        self._feed_good: bool | None = None

    def authorization(self, request: Request, verdict: Verdict, took: Duration) -> None:
        """Keep one ext_authz decision; `took` in nanoseconds."""
        allowed = isinstance(verdict, Allow)
        outcome, status = (ALLOW, 200) if isinstance(verdict, Allow) else _describe_reason(verdict.reason)
        self._metrics.decision("authz", request.route, outcome, status, took)
        if not self._journal.admits(request.received, refusal=not allowed):
            return
        caller = verdict.caller
        self._journal.decision(
            request.received,
            {
                "service": "authz",
                "request_id": request.id,
                "route": request.route,
                "method": request.method,
                "outcome": outcome,
                "status": status,
                "credential": caller.kind,
                "client_id": caller.client_id,
                "tier": caller.tier,
                "tenant": caller.tenant,
                "organisation": caller.organisation,
                "address": request.address,
                "took_us": took // 1000,
            },
        )

    def limiting(self, question: Question, answer: Answer, received: Instant) -> None:
        """Keep one answer of the rate limit service; descriptor values may be credentials and are not written."""
        took = clock.now() - received
        outcome, status = _describe_reason(Reason.QUOTA_EXCEEDED) if answer.refused else (ALLOW, 200)
        self._metrics.decision("ratelimit", question.domain, outcome, status, took)
        if self._journal.admits(received, refusal=answer.refused):
            rules = [status.rule.path for status in answer.statuses if status.refusing and status.rule is not None]
            self._journal.decision(
                received,
                {
                    "service": "ratelimit",
                    "domain": question.domain,
                    "outcome": outcome,
                    "refused_by": rules,
                    "took_us": took // 1000,
                },
            )

    def processing(self, event: Event, reply: Reply) -> None:
        """Count one event of ext_proc; it is no decision, so there is no line."""
        outcome = PROBLEM if isinstance(reply, Replace) else event.phase.name.lower()
        self._metrics.count("processed", outcome)

    def limiter_mode(self, mode: str, cause: str) -> None:
        """Keep that limits are counted in another way from now on."""
        self._metrics.count("limiter_changes", mode)
        self._journal.event("info" if mode == "shared" else "warning", "limiter mode", mode=mode, cause=cause)

    def keys_loaded(self, issuer_id: str, keys: KeySet) -> None:
        """Keep that an issuer's key set was fetched."""
        self._metrics.count("jwks_loads", issuer_id)
        if keys.ignored:
            self._metrics.count("jwks_keys_ignored", issuer_id, len(keys.ignored))
            self._journal.event("warning", "keys ignored", issuer=issuer_id, reasons=list(keys.ignored))

    def keys_failed(self, issuer_id: str, why: str) -> None:
        """Keep that an issuer's key set could not be fetched."""
        self._metrics.count("jwks_failures", issuer_id)
        self._journal.event("warning", "keys not fetched", issuer=issuer_id, why=why)

    def status_loaded(self, source: str, seconds_left: int) -> None:
        """Keep that a list of revoked certificates, or the status of one, was taken over."""
        self._metrics.count("certificate_status_loads")
        self._journal.event("debug", "certificate status", source=source, seconds_left=seconds_left)

    def status_failed(self, source: str, why: str) -> None:
        """Keep that a source of revocation status failed; what was known stays."""
        self._metrics.count("certificate_status_failures")
        self._journal.event("warning", "certificate status not fetched", source=source, why=why)

    def introspected(self, endpoint_id: str, good: bool) -> None:
        """Keep that an introspection endpoint was asked, and whether it gave a plain answer."""
        self._metrics.count("introspections" if good else "introspection_failures", endpoint_id)

    def feed_heard(self, *, good: bool) -> None:
        """Keep whether the revocation feed answered: a count of failures, a line for each change."""
        if not good:
            self._metrics.count("revocation_feed_failures")
        if good != self._feed_good:
            self._feed_good = good
            self._journal.event("info" if good else "warning", "revocation feed", answers=good)

    def list_taken(self, name: str, entries: int) -> None:
        """Keep that a list on disk was taken up anew."""
        self._journal.event("info", "list taken up", list=name, entries=entries)

    def list_refused(self, why: str) -> None:
        """Keep that a list on disk cannot be read; the one at hand stays."""
        self._metrics.count("lists_refused")
        self._journal.event("error", "list refused", why=why)


def _describe_reason(reason: Reason) -> tuple[str, int]:
    return reason.value, TABLE[reason].status
