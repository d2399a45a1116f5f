"""The one module that waits."""

import pytest

from authz.gather import begin_verdict
from model.quota import LimiterUnavailable
from model.reason import Reason
from model.verdict import Allow
from tests.authz.build import CountingLimiter, judge, request, resident


def test_resident_limiter_is_asked_without_waiting():
    """A hot decision never touches the event loop."""

    class Resident(CountingLimiter):
        async def spend(self, charges, now):
            raise AssertionError("asked the store")

    assert isinstance(begin_verdict(request(), resident(), Resident()), Allow)


def test_store_is_asked_once_where_the_instance_cannot_tell():
    """One round trip, and its outcome decides."""
    limiter = CountingLimiter(resident=False)

    assert isinstance(judge(limiter=limiter), Allow)
    assert len(limiter.spends) == 1


def test_away_store_is_a_reason_and_any_other_fault_is_not_hidden():
    """Only what the port promises is translated here."""
    assert (
        judge(limiter=CountingLimiter(resident=False, away=LimiterUnavailable())).reason is Reason.LIMITER_UNAVAILABLE
    )
    with pytest.raises(ZeroDivisionError):
        judge(limiter=CountingLimiter(resident=False, away=ZeroDivisionError()))
