"""One machine per stream: one reply per event, and no early end that Envoy would take for consent."""

import pytest

from extproc.service import ProcessorService
from model.rpc import RpcError
from model.snapshot import Response, Route
from pb import ext_proc_pb2 as pb
from tests.extproc.build import event_bytes, grpc_error

ROUTE = Route("accounts", "partner", "ledger", "ledger", response=Response(problems=True))


async def stream(*messages):
    for message in messages:
        yield message


async def converse(service, *messages):
    return [pb.ProcessingResponse.FromString(data) async for data in service.process(stream(*messages))]


@pytest.fixture
def service():
    return ProcessorService({"accounts": ROUTE}, lambda event, reply: None)


async def test_each_event_gets_exactly_one_reply(service):
    """Request phases pass unchanged; the reply to the response headers is the last."""
    replies = await converse(
        service,
        event_bytes("request_headers"),
        event_bytes("request_body"),
        event_bytes("response_headers", [(":status", "200")]),
    )

    assert [r.WhichOneof("response") for r in replies] == ["request_headers", "request_body", "response_headers"]


async def test_stream_may_start_with_the_response(service):
    """A route that processes responses only never sends its request."""
    replies = await converse(service, event_bytes("response_headers", grpc_error(5, "gone")))

    assert replies[0].immediate_response.status.code == 404


async def test_stream_ends_after_its_last_reply(service):
    """Ending it spares Envoy a reset; what comes later is not read."""
    replies = await converse(
        service, event_bytes("response_headers", [(":status", "200")]), event_bytes("response_body")
    )

    assert len(replies) == 1


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ([b"\xff\xff"], 3),
        ([b""], 3),
        ([event_bytes("response_body")], 3),
        ([event_bytes("request_headers"), event_bytes("request_headers")], 3),
    ],
)
async def test_broken_protocol_fails_the_stream_with_a_status(service, messages, code):
    """Never OK before the reply: that would let the response through unprocessed."""
    with pytest.raises(RpcError) as caught:
        await converse(service, *messages)
    assert caught.value.code == code


async def test_fault_of_ours_fails_the_stream_with_internal():
    """M-02: a bug in the processor closes, whatever it raises."""

    def broken(event, reply):
        raise RuntimeError("bug")

    service = ProcessorService({}, broken)
    with pytest.raises(RpcError) as caught:
        await converse(service, event_bytes("response_headers"))
    assert caught.value.code == 13


async def test_swapped_policies_serve_the_next_stream(service):
    """A reload is one attribute."""
    service.policies = {}
    replies = await converse(service, event_bytes("response_headers", grpc_error(5)))

    assert replies[0].WhichOneof("response") == "response_headers"
