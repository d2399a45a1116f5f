"""Bytes in, bytes out: each phase is read as itself, each reply answers its own phase."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc import wire
from extproc.change import DETAILS, Pass, Replace
from extproc.machine import Phase
from pb import ext_proc_pb2 as pb
from tests.extproc.build import event_bytes


@pytest.mark.parametrize("phase", Phase)
def test_phase_is_read_with_its_attributes(phase):
    """The route and the request id come from Envoy's attributes, never from a header."""
    event = wire.read_event(event_bytes(phase, [("X-A", "\xff")]))

    assert (event.phase, event.route, event.request_id) == (phase, "accounts", "id-1")
    if phase in (Phase.REQUEST_HEADERS, Phase.RESPONSE_HEADERS):
        assert event.headers == [("x-a", "\xff")]


@pytest.mark.parametrize("phase", Phase)
def test_reply_answers_the_phase_it_was_asked(phase):
    """Envoy takes an answer to another phase for a protocol error."""
    message = pb.ProcessingResponse.FromString(wire.write_reply(phase, Pass()))

    assert message.WhichOneof("response") == phase


def test_changes_overwrite_and_remove():
    """A set header replaces what the upstream sent; names to remove are listed."""
    data = wire.write_reply(Phase.RESPONSE_HEADERS, Pass((("a", "\xe9"),), ("b",)))
    mutation = pb.ProcessingResponse.FromString(data).response_headers.response.header_mutation

    assert mutation.set_headers[0].append_action == 2
    assert mutation.set_headers[0].header.raw_value == b"\xe9"
    assert list(mutation.remove_headers) == ["b"]


def test_replacement_is_marked_for_the_local_reply_mapper():
    """The details tell Envoy's local reply mapper to keep the document as it is."""
    data = wire.write_reply(Phase.RESPONSE_HEADERS, Replace(404, "{}", (("content-type", "x"),)))
    immediate = pb.ProcessingResponse.FromString(data).immediate_response

    assert (immediate.status.code, immediate.body, immediate.details) == (404, b"{}", DETAILS)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_event_or_malformed(data):
    """No input raises anything else."""
    with contextlib.suppress(wire.EventMalformed):
        assert wire.read_event(data).phase in Phase
