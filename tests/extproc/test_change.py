"""What is answered to responses: problem documents for gRPC errors, clean headers for the rest."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.change import UNCHANGED, Event, Pass, Replace, answer_event
from extproc.machine import Phase
from extproc.status import TABLE
from model.problem import MEDIA_TYPE
from model.snapshot import Response, Route
from tests.extproc.build import grpc_error

HYGIENE = Response(
    problems=True,
    strip=("server", "x-internal-*"),
    set=(("x-content-type-options", "nosniff"),),
)
POLICIES = {"accounts": Route("accounts", "p", "u", "u", response=HYGIENE)}


def response(headers, route="accounts"):
    return Event(Phase.RESPONSE_HEADERS, headers, route, "id-1")


@pytest.mark.parametrize("code", list(TABLE))
def test_grpc_error_becomes_a_problem_of_its_http_status(code):
    """M-12: each gRPC code has its HTTP status, and the document says the same number."""
    reply = answer_event(response(grpc_error(code, "no%20such%20account")), POLICIES)

    assert isinstance(reply, Replace)
    document = json.loads(reply.body)
    assert reply.status == document["status"] == TABLE[code].http
    assert ("content-type", MEDIA_TYPE) in reply.set_headers
    assert ("x-content-type-options", "nosniff") in reply.set_headers
    assert document["request_id"] == "id-1"
    assert ("detail" in document) == TABLE[code].told


def test_message_of_an_internal_fault_stays_inside():
    """RFC 9457 section 5: no stack trace and no host name leaves in `detail`."""
    reply = answer_event(response(grpc_error(13, "psycopg2 at db-7.internal")), POLICIES)

    assert "db-7" not in reply.body


def test_unavailable_backend_says_when_to_come_back():
    """503 carries Retry-After."""
    assert ("retry-after", "5") in answer_event(response(grpc_error(14)), POLICIES).set_headers


def test_unauthenticated_backend_answers_with_a_challenge():
    """RFC 9110 section 15.5.2: a 401 carries WWW-Authenticate."""
    names = [name for name, _ in answer_event(response(grpc_error(16)), POLICIES).set_headers]

    assert "www-authenticate" in names


@pytest.mark.parametrize("text", ["99", "-1", "x", "", "00", "123456789012345"])
def test_odd_grpc_status_is_an_upstream_error(text):
    """A status that is none maps to 500, never to success and never to an exception."""
    reply = answer_event(response([(":status", "200"), ("grpc-status", text)]), POLICIES)

    assert isinstance(reply, Replace) == (text != "0")
    assert reply.status == 500


def test_good_response_loses_internal_headers_and_gains_security_headers():
    """Exact names and prefixes go, pseudo headers and the rest stay."""
    headers = [(":status", "200"), ("server", "x"), ("x-internal-node", "7"), ("x-internals", "kept"), ("etag", "e")]
    reply = answer_event(response(headers), POLICIES)

    assert reply == Pass((("x-content-type-options", "nosniff"),), ("server", "x-internal-node"))


def test_pseudo_header_cannot_be_stripped():
    """A pattern `*` takes no pseudo header with it: without :status there is no response."""
    reply = answer_event(
        response([(":status", "200"), ("a", "b")]),
        {"accounts": Route("accounts", "p", "u", "u", response=Response(strip=("*",)))},
    )

    assert reply == Pass((), ("a",))


def test_unknown_route_and_other_phases_pass_unchanged():
    """A route that did not ask pays nothing and loses nothing."""
    assert answer_event(response(grpc_error(5), route="other"), POLICIES) is UNCHANGED
    assert answer_event(Event(Phase.REQUEST_HEADERS, (), "accounts"), POLICIES) is UNCHANGED


@given(st.text(max_size=2000))
def test_any_message_gives_a_well_formed_document(text):
    """P-08: whatever the backend wrote, the document is JSON on one line with a bounded detail."""
    reply = answer_event(response(grpc_error(5, text)), POLICIES)

    assert "\n" not in reply.body
    assert len(json.loads(reply.body).get("detail", "")) <= 512
