"""envoy.service.auth.v3.Authorization/Check as bytes to bytes: read, gather, record, write.

Nothing is raised: a gRPC error would be an outage to Envoy, subject to its failure mode, and not a decision (bug report
M-02). Whatever breaks in here becomes a refusal.
"""

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from authz.gather import Pending, begin_verdict, finish_verdict
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

    def check(self, data: bytes) -> bytes | Coroutine[Any, Any, bytes]:
        """Answer one CheckRequest with one CheckResponse, at once or, where something has to be asked, later.

        Raises nothing; what is awaited raises nothing but the cancellation of its own task.
        """
        now = self._clock()
        resident = self.resident
        request = Request(received=now)
        try:
            request = read_check(data, now)
            if resident is None:
                return self._answer(Deny(Reason.NOT_READY), request, None)
            found = begin_verdict(request, resident, self._limiter)
            if isinstance(found, Pending):
                return self._wait(found, request, resident)
            return self._answer(found, request, resident)
        except Exception as error:  # noqa: BLE001 - the outermost line: whatever broke, the request does not pass
            return self._refuse(error, request)

    async def _wait(self, pending: Pending, request: Request, resident: Resident) -> bytes:
        try:
            verdict = await finish_verdict(pending, request, resident, self._limiter)
            return self._answer(verdict, request, resident)
        except Exception as error:  # noqa: BLE001 - see `check`
            return self._refuse(error, request)

    def _refuse(self, error: Exception, request: Request) -> bytes:
        if isinstance(error, CheckMalformed):
            return self._answer(Deny(Reason.REQUEST_MALFORMED), request, None)
        _log.error("a decision broke", exc_info=error)
        return self._answer(Deny(Reason.INTERNAL), request, None)

    def _answer(self, verdict: Verdict, request: Request, resident: Resident | None) -> bytes:
        style = "problem" if isinstance(verdict, Allow) else _style(request, resident)
        answer = write_verdict(verdict, request, style)
        self._note(request, verdict)
        return answer

    def _note(self, request: Request, verdict: Verdict) -> None:
        try:
            self._record(request, verdict, self._clock() - request.received)
        except Exception:  # noqa: BLE001 - an observer that fails must not change a decision
            _log.exception("a decision could not be recorded")


def _style(request: Request, resident: Resident | None) -> str:
    if resident is None:
        return "problem"
    route = resident.snapshot.unlabelled if request.route is None else request.route
    plan = resident.plans.get(route or "")
    return "problem" if plan is None else plan.route.error_style
