"""P-06, P-08: one event is one line, holds what was named and nothing else, and never waits for its reader."""

import json
import logging
import threading

import pytest

from model.reason import Reason
from model.request import Request
from model.verdict import Allow, Caller, Deny
from sidecar.logs import CAPACITY, Bridge, Journal
from sidecar.metrics import Metrics
from sidecar.record import Recorder
from tests.sidecar.build import SECOND, journal

SECRET = "eyJhbGciOiJFUzI1NiJ9.c2VjcmV0LXBheWxvYWQ.c2lnbmF0dXJl"
HOSTILE = 'a\r\nINFO all is well\x1b[31m\u2028\u2029\x85\x7f"\\\x00'


def request(**changes):
    values = {
        "method": "GET",
        "path": f"/accounts/{SECRET}?access_token={SECRET}",
        "address": "192.0.2.1",
        "id": "r-1",
        "route": "accounts",
        "certificate": SECRET,
        "headers": {"authorization": f"Bearer {SECRET}", "x-api-key": SECRET, "cookie": SECRET},
        "received": 1_700_000_000 * SECOND,
    }
    return Request(**{**values, **changes})


def decide(written, *decision):
    Recorder(Metrics(), written).authorization(*decision)


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_credential_is_written_even_at_debug(form):
    """P-06: Authorization, X-Api-Key, Cookie, PEM, access_token in the query, a JWT as path segment."""
    written, lines = journal(level="debug", form=form)
    decide(written, request(), Allow(Caller(client_id="c-1")), 1500)
    decide(written, request(), Deny(Reason.TOKEN_SIGNATURE, detail=SECRET), 1500)
    written.close()
    assert len(lines) == 2
    assert not any(part in line for line in lines for part in SECRET.split("."))


@pytest.mark.parametrize("form", ["json", "text"])
def test_the_text_of_an_exception_stays_out_of_the_log(form):
    """P-06: exceptions forced in parsing may quote what they could not parse."""
    written, lines = journal(form=form)
    error = ValueError(SECRET)
    record = logging.LogRecord("wardgate", logging.ERROR, "", 0, "raised", (), (type(error), error, None))
    Bridge(written).emit(record)
    written.close()
    assert len(lines) == 1
    assert "ValueError" in lines[0]
    assert SECRET not in lines[0]


@pytest.mark.parametrize("form", ["json", "text"])
def test_hostile_text_cannot_begin_a_second_line(form):
    """P-08: newline, ANSI escape, U+2028, quotes; JSON and text."""
    written, lines = journal(form=form)
    decide(written, request(id=HOSTILE, route=HOSTILE), Allow(Caller(client_id=HOSTILE, tenant=HOSTILE)), 1)
    written.event("warning", "keys not fetched", issuer=HOSTILE, why=HOSTILE, reasons=[HOSTILE])
    written.close()
    for line in lines:
        assert line.isascii()
        assert line.isprintable()
        assert len(line.splitlines()) == 1


def test_a_json_line_gives_back_what_was_named():
    written, lines = journal()
    decide(written, request(id=HOSTILE), Deny(Reason.SCOPE_MISSING, caller=Caller(client_id="c")), 2_500)
    written.close()
    line = json.loads(lines[0])
    assert line["request_id"] == HOSTILE
    assert (line["outcome"], line["status"], line["took_us"]) == ("scope-missing", 403, 2)
    assert line["at"] == "2023-11-14T22:13:20.000Z"


def test_a_text_line_quotes_only_what_needs_it():
    written, lines = journal(form="text")
    written.event("info", "listening", address="unix:/run/w.sock", note="two words", empty="")
    written.close()
    assert lines[0].endswith('level=info event=listening address=unix:/run/w.sock note="two words"')


def test_levels_hold_back_what_is_below_them():
    written, lines = journal(level="warning")
    decide(written, request(), Allow(Caller()), 1)
    written.event("info", "listening")
    written.event("error", "broken")
    written.close()
    assert [line["event"] for line in lines.parsed()] == ["broken"]


def test_decisions_beyond_the_rate_are_dropped_and_counted_and_refusals_have_their_own_rate():
    written, lines = journal(rate=3)
    for _ in range(10):
        decide(written, request(), Allow(Caller()), 1)
    decide(written, request(), Deny(Reason.SCOPE_MISSING), 1)
    decide(written, request(received=1_700_000_001 * SECOND), Allow(Caller()), 1)
    written.close()
    assert len(lines) == 5
    assert written.dropped == 7


def test_a_reader_that_stands_still_holds_nobody_up():
    gate = threading.Event()
    written = Journal(lambda _line: gate.wait(), rate=10 * CAPACITY)
    for _ in range(CAPACITY + 500):
        written.event("info", "tick")
    assert written.dropped >= 499
    gate.set()
    written.close()


def test_a_reader_that_has_gone_is_survived():
    def broken(_line):
        raise BrokenPipeError

    written = Journal(broken)
    written.event("info", "tick")
    written.close()
    assert written.dropped == 1
