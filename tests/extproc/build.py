"""Builders for ext_proc messages, as Envoy writes them."""

from extproc.wire import AUTHORITY, REQUEST_ATTRIBUTE, ROUTE_ATTRIBUTE
from model.place import METADATA
from pb import envoy_core_pb2 as core
from pb import ext_proc_pb2 as pb

FILTER = "envoy.filters.http.ext_proc"


def event_bytes(phase, headers=(), route="accounts", request_id="id-1", end=False, places=""):
    """One ProcessingRequest of a phase with raw header values and the attributes that the compiler asks for."""
    message = pb.ProcessingRequest()
    part = getattr(message, phase)
    if phase.endswith("headers"):
        for name, value in headers:
            part.headers.headers.append(core.HeaderValue(key=name, raw_value=value.encode("latin-1")))
        part.end_of_stream = end
    else:
        part.SetInParent()
    message.attributes[FILTER].fields[ROUTE_ATTRIBUTE].string_value = route
    message.attributes[FILTER].fields[REQUEST_ATTRIBUTE].string_value = request_id
    if places:
        message.metadata_context.filter_metadata[AUTHORITY].fields[METADATA].string_value = places
    return message.SerializeToString()


def grpc_error(code, text=""):
    """Response headers of a transcoded gRPC error: Envoy has mapped :status and kept the trailers-only fields."""
    return [
        (":status", "400"),
        ("content-type", "application/json"),
        ("grpc-status", str(code)),
        ("grpc-message", text),
    ]
