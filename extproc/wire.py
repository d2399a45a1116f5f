"""Bytes of envoy.service.ext_proc.v3 to events, and replies to bytes."""

from google.protobuf.message import DecodeError

from extproc.change import DETAILS, Event, Pass, Reply
from extproc.machine import Phase
from model.place import METADATA
from model.verdict import Header
from pb import envoy_core_pb2 as core
from pb import ext_proc_pb2 as pb

# The attributes that the compiled configuration asks Envoy for, under the filter's name.
ROUTE_ATTRIBUTE = "xds.route_name"
REQUEST_ATTRIBUTE = "request.id"

# Where Envoy keeps what a decision of ext_authz says beside its verdict.
AUTHORITY = "envoy.filters.http.ext_authz"


class EventMalformed(Exception):
    """The message is not a ProcessingRequest with exactly one phase."""


def read_event(data: bytes) -> Event:
    """Read one ProcessingRequest. Raises EventMalformed for anything else."""
    message = pb.ProcessingRequest()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise EventMalformed("not a ProcessingRequest") from error
    name = message.WhichOneof("request")
    if name is None:
        raise EventMalformed("a ProcessingRequest without a phase")
    event = Event(Phase(name))
    if event.phase in (Phase.REQUEST_HEADERS, Phase.RESPONSE_HEADERS):
        event.headers = _headers(getattr(message, name).headers)
    for group in message.attributes.values():
        fields = group.fields
        if ROUTE_ATTRIBUTE in fields:
            event.route = fields[ROUTE_ATTRIBUTE].string_value
        if REQUEST_ATTRIBUTE in fields:
            event.request_id = fields[REQUEST_ATTRIBUTE].string_value
    known = message.metadata_context.filter_metadata
    if AUTHORITY in known and METADATA in known[AUTHORITY].fields:
        event.places = known[AUTHORITY].fields[METADATA].string_value
    return event


def write_reply(phase: Phase, reply: Reply) -> bytes:
    """Write the one ProcessingResponse that answers an event of the phase."""
    message = pb.ProcessingResponse()
    if not isinstance(reply, Pass):
        immediate = message.immediate_response
        immediate.status.code = reply.status
        immediate.body = reply.body.encode()
        immediate.details = DETAILS
        _mutate(immediate.headers, reply.set_headers, ())
    elif phase in (Phase.REQUEST_HEADERS, Phase.RESPONSE_HEADERS):
        headers: pb.HeadersResponse = getattr(message, phase)
        headers.SetInParent()
        if reply.set_headers or reply.remove_headers:
            _mutate(headers.response.header_mutation, reply.set_headers, reply.remove_headers)
    else:
        getattr(message, phase).SetInParent()
    return message.SerializeToString()


def _headers(headers: core.HeaderMap) -> list[Header]:
    return [(h.key.lower(), h.raw_value.decode("latin-1") or h.value) for h in headers.headers]


def _mutate(mutation: pb.HeaderMutation, sets: tuple[Header, ...], removes: tuple[str, ...]) -> None:
    for name, value in sets:
        mutation.set_headers.add(
            header=core.HeaderValue(key=name, raw_value=value.encode("latin-1", "replace")),
            append_action=core.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
        )
    mutation.remove_headers.extend(removes)
