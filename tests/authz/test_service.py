"""Check, from bytes to bytes, whatever happens inside."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import identify
from authz.service import AuthorizationService
from model.quota import LimiterUnavailable
from model.reason import Reason
from model.verdict import Allow, Deny
from pb import ext_authz_pb2 as pb
from tests.authz.build import NOW, CountingLimiter, check_bytes, drive, request, resident, route, snapshot


class Broken(Exception):
    """A fault of ours."""


class Recorded(list):
    def __call__(self, asked, verdict, duration):
        self.append((asked, verdict, duration))


def service(house=..., limiter=None, record=None, clock=lambda: NOW):
    return AuthorizationService(
        resident() if house is ... else house,
        limiter or CountingLimiter(),
        clock,
        Recorded() if record is None else record,
    )


def check(subject, data=None):
    return pb.CheckResponse.FromString(drive(subject.check(check_bytes(request()) if data is None else data)))


def test_good_request_is_allowed_and_recorded_once():
    """Bytes in, bytes out, one line for the log with the time that it took."""
    ticks = iter([NOW, NOW + 1500])
    record = Recorded()
    response = check(service(record=record, clock=lambda: next(ticks)))

    assert response.WhichOneof("http_response") == "ok_response"
    ((asked, verdict, duration),) = record
    assert (asked.id, duration) == ("req-1", 1500)
    assert isinstance(verdict, Allow)


def test_without_a_policy_everything_is_refused():
    """503 until there is one."""
    response = check(service(None))

    assert response.denied_response.status.code == 503
    assert json.loads(response.denied_response.body)["type"].endswith("not-ready")


def test_policy_is_swapped_between_two_requests():
    """One attribute, no restart."""
    subject = service()
    check(subject)
    subject.resident = resident(snapshot(routes=(route(id="other"),)))

    assert check(subject).denied_response.status.code == 404


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\xff", b"\x0a\x05ab"])
def test_malformed_message_is_a_denial(data):
    """Never a gRPC error, which failure_mode_allow would turn into a pass."""
    record = Recorded()
    response = check(service(record=record), data)

    assert response.denied_response.status.code == 400
    assert record[0][1].reason is Reason.REQUEST_MALFORMED


def test_empty_message_is_a_denial():
    """CONNECT without a path, or nothing at all (pitfall 42)."""
    assert check(service(), b"").denied_response.status.code == 404


def test_fault_inside_is_a_denial_and_is_logged(monkeypatch, caplog):
    """A bug never becomes an allowance (bug report M-02)."""

    def broken(*_):
        raise Broken

    monkeypatch.setattr(identify, "verify_token", broken)
    record = Recorded()
    response = check(service(record=record))

    assert response.denied_response.status.code == 500
    assert record[0][1].reason is Reason.INTERNAL
    assert "a decision broke" in caplog.text


class Breaking(CountingLimiter):
    def admit(self, charges, now):
        raise Broken


class Short(CountingLimiter):
    def admit(self, charges, now):
        return []


@pytest.mark.parametrize("limiter", [Breaking(), Short()], ids=["raises", "answers for nobody"])
def test_limiter_that_breaks_its_word_is_a_denial(limiter):
    """An unexpected exception, or outcomes that are not those of the charges."""
    assert check(service(limiter=limiter)).denied_response.status.code == 500


def test_away_limiter_is_a_503_with_a_wait():
    """Its own reason, not an internal error."""
    response = check(service(limiter=CountingLimiter(resident=False, away=LimiterUnavailable())))
    fields = {option.header.key: option.header.value for option in response.denied_response.headers}

    assert response.denied_response.status.code == 503
    assert int(fields["retry-after"]) >= 1


def test_invalid_header_is_a_denial(monkeypatch):
    """An allowance that cannot be written is none."""
    monkeypatch.setattr("authz.grant.mint_context", lambda _: "a\r\nx-evil: 1")

    assert check(service()).denied_response.status.code == 500


def test_observer_that_fails_changes_no_decision(caplog):
    """The answer is given and the failure logged."""

    def broken(*_):
        raise Broken

    assert check(service(record=broken)).WhichOneof("http_response") == "ok_response"
    assert "could not be recorded" in caplog.text


async def test_cancelled_check_is_cancelled_and_answers_nobody():
    """Envoy went away: the task ends, and nothing is recorded."""
    started, record = asyncio.Event(), Recorded()

    class Waiting(CountingLimiter):
        def admit(self, charges, now):
            return None

        async def spend(self, charges, now):
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(service(limiter=Waiting(), record=record).check(check_bytes(request())))
    await started.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert record == []


def test_error_style_is_that_of_the_route():
    """Berlin Group clients get their own body."""
    house = resident(snapshot(routes=(route(error_style="tpp-messages"),)))

    body = json.loads(check(service(house), check_bytes(request(bearer=None))).denied_response.body)

    assert body["tppMessages"][0]["code"] == "TOKEN_INVALID"


def test_request_without_a_route_id_gets_the_policy_that_the_document_names_for_it():
    """A fleet that labels no routes names one; its answers have the style of that one."""
    house = resident(snapshot(routes=(route(error_style="tpp-messages"),), unlabelled="accounts"))

    allowed = check(service(house), check_bytes(request(route=None)))
    denied = check(service(house), check_bytes(request(route=None, bearer=None)))

    assert allowed.WhichOneof("http_response") == "ok_response"
    assert "tppMessages" in denied.denied_response.body


DATA = check_bytes(request())


@settings(max_examples=300)
@given(st.integers(0, len(DATA) - 1), st.binary(min_size=1, max_size=4), st.booleans())
def test_mutated_messages_are_answered_without_a_fault_of_ours(place, patch, cut):
    """Any change of a good message: an answer always, never 5xx for it, and an allowance only for the same token."""
    data = DATA[:place] + patch + (b"" if cut else DATA[place + len(patch) :])
    record = Recorded()

    response = check(service(record=record), data)

    verdict = record[0][1]
    if isinstance(verdict, Deny):
        assert response.denied_response.status.code < 500
    else:
        assert verdict.caller.client_id == "client-1"
