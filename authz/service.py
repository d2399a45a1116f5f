"""envoy.service.auth.v3.Authorization/Check as bytes to bytes: read, gather, record, write.

Nothing is raised: a gRPC error would be an outage to Envoy, subject to its failure mode, and not a decision (bug report
M-02). Whatever breaks in here becomes a refusal.
"""

import logging
from collections.abc import Callable

from authz.gather import gather_verdict
from authz.resident import Resident
from authz.wire import CheckMalformed, read_check, write_verdict
from model.instant import Duration, Instant
from model.quota import Limiter
from model.reason import Reason
from model.request import Request
from model.verdict import Allow, Deny, Verdict

METHOD = "/envoy.service.auth.v3.Authorization/Check"

Record = Callable[[Request, Verdict, Duration], None]
"""Takes every decision and how long it took, for the log and the metrics. Must not wait."""

_log = logging.getLogger(__name__)


class AuthorizationService:
    """Answers Envoy. `resident` is swapped as one attribute; None refuses all (503) until there is a policy."""

    def __init__(
        self, resident: Resident | None, limiter: Limiter, clock: Callable[[], Instant], record: Record
    ) -> None:
        self.resident = resident
        self._limiter = limiter
        self._clock = clock
        self._record = record

    async def check(self, data: bytes) -> bytes:
        """Answer one CheckRequest with one CheckResponse. Raises nothing but the cancellation of its own task."""
        now = self._clock()
        resident = self.resident
        request = Request(received=now)
        try:
            request = read_check(data, now)
            verdict = (
                Deny(Reason.NOT_READY) if resident is None else await gather_verdict(request, resident, self._limiter)
            )
            answer = write_verdict(verdict, request, _style(verdict, request, resident))
        except CheckMalformed:
            verdict = Deny(Reason.REQUEST_MALFORMED)
            answer = write_verdict(verdict, request)
        except Exception:  # noqa: BLE001 - the outermost line: whatever broke, the request does not pass
            _log.exception("a decision broke")
            verdict = Deny(Reason.INTERNAL)
            answer = write_verdict(verdict, request)
        self._note(request, verdict, now)
        return answer

    def _note(self, request: Request, verdict: Verdict, since: Instant) -> None:
        try:
            self._record(request, verdict, self._clock() - since)
        except Exception:  # noqa: BLE001 - an observer that fails must not change a decision
            _log.exception("a decision could not be recorded")


def _style(verdict: Verdict, request: Request, resident: Resident | None) -> str:
    if resident is None or isinstance(verdict, Allow):
        return "problem"
    route = resident.snapshot.unlabelled if request.route is None else request.route
    plan = resident.plans.get(route or "")
    return "problem" if plan is None else plan.route.error_style
