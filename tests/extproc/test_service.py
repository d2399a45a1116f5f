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


class Held:
    """Places that are held now, and how often some were taken."""

    def __init__(self):
        self.now, self.taken = [], 0

    def __call__(self, places):
        self.now.append(places)
        self.taken += 1
        return lambda: self.now.remove(places)


async def test_places_are_held_from_the_requests_headers_until_the_stream_ends():
    """They are taken once, although Envoy repeats its metadata with every message."""
    held = Held()
    service = ProcessorService({}, lambda event, reply: None, held)
    seen = []

    async def exchange():
        for phase in ("request_headers", "response_trailers"):
            yield event_bytes(phase, places="[]x")
            seen.append(list(held.now))

    replies = [pb.ProcessingResponse.FromString(data) async for data in service.process(exchange())]
    assert [reply.WhichOneof("response") for reply in replies] == ["request_headers", "response_trailers"]
    assert (seen, held.now, held.taken) == ([["[]x"]], [], 1)


async def test_places_are_let_go_when_the_proxy_hangs_up_or_dies():
    held = Held()
    service = ProcessorService({}, lambda event, reply: None, held)

    async def cut_off():
        yield event_bytes("request_headers", places="p")
        raise ConnectionError

    with pytest.raises(ConnectionError):
        _ = [data async for data in service.process(cut_off())]
    assert (held.now, held.taken) == ([], 1)
    replies = service.process(stream(event_bytes("request_headers", places="p")))
    await anext(replies)
    assert held.now == ["p"]
    await replies.aclose()
    assert held.now == []


async def test_a_decision_without_places_holds_none():
    held = Held()
    await converse(ProcessorService({}, lambda event, reply: None, held), event_bytes("request_headers"))
    assert held.taken == 0
