"""REST in, gRPC out: what fits no field is a 400, what a backend says keeps its meaning (M-09, M-11, M-12)."""

import json
from dataclasses import replace

import pytest

from demo.cases import ALPHA, PAYMENT
from demo.row import Expect, complaints, describe
from demo.world import Ask, unique

PAYER = replace(ALPHA, scope="payments")


@pytest.mark.parametrize(
    "query",
    [
        "unknwon=1",
        "page_size=abc",
        "page_size=99999999999",
        "direction=SIDEWAYS",
        "pending=perhaps",
        "reference.colour=1",
    ],
)
async def test_a_query_that_fits_no_field_is_a_bad_request(world, query):
    reply = await world.ask(Ask("GET", f"/v3/accounts/current/transactions?{query}", ALPHA))
    assert complaints(reply, Expect(400)) == []


async def test_a_repeated_query_parameter_of_a_single_field_is_a_bad_request(world):
    reply = await world.ask(Ask("GET", "/v3/accounts/current/transactions?page_size=1&page_size=2", ALPHA))
    assert complaints(reply, Expect(400)) == []


async def test_nested_fields_and_large_integers_arrive_from_the_query(world):
    query = "reference.currency=EUR&reference.amount=1.10&minimum_cents=9007199254740993&pending=true"
    reply = await world.ask(Ask("GET", f"/v3/accounts/current/transactions?{query}", ALPHA))
    request = reply.json()["request"]
    assert request["reference"] == {"currency": "EUR", "amount": "1.10"}
    assert (request["minimum_cents"], request["pending"]) == ("9007199254740993", True)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b'"x"', b'{"end_to_end_id": 5', b"\xff\xfe"])
async def test_a_body_that_is_no_object_never_reaches_the_backend_as_an_error_of_ours(world, body):
    reply = await world.ask(Ask("POST", "/v3/payments", PAYER, body=body))
    assert reply.status < 500, describe(reply)


async def test_text_arrives_unharmed(world):
    name = 'Zoë “Ø” 漢字 \\ " \u0001 🏦'
    payment = {**PAYMENT, "debtor": {"name": name, "iban": "x"}, "end_to_end_id": unique("text")}
    reply = await world.ask(Ask("POST", "/v3/payments", PAYER, body=payment))
    assert name == reply.json()["request"]["debtor"]["name"]


@pytest.mark.parametrize(
    ("account", "status"),
    [("missing", 404), ("forbidden", 403), ("invalid", 400), ("exhausted", 429), ("broken", 500), ("busy", 503)],
)
async def test_a_status_of_the_backend_becomes_a_problem_document(world, account, status):
    reply = await world.ask(Ask("GET", f"/v3/accounts/{account}", ALPHA))
    assert complaints(reply, Expect(status)) == []
    assert str(len(reply.body)) == reply.header("content-length")
    assert not [name for name, _ in reply.headers if name.startswith("grpc-")]


async def test_a_fault_of_the_backend_is_not_told_to_the_client(world):
    reply = await world.ask(Ask("GET", "/v3/accounts/broken", ALPHA))
    assert b"the demo answers" not in reply.body


async def test_a_stream_arrives_as_one_json_object_a_line(world):
    reply = await world.ask(Ask("GET", "/v3/accounts/current/transactions:watch?count=4", ALPHA))
    assert reply.status == 200, describe(reply)
    names = [json.loads(line)["transaction_id"] for line in reply.body.splitlines()]
    assert names == ["current-0", "current-1", "current-2", "current-3"]


async def test_a_stream_that_fails_at_once_is_no_success(world):
    reply = await world.ask(Ask("GET", "/v3/accounts/missing/transactions:watch", ALPHA))
    assert reply.status == 404, describe(reply)


async def test_a_path_that_no_method_is_mapped_to_is_unknown(world):
    reply = await world.ask(Ask("GET", "/openbanking.ledger.v1.AccountLedger/GetAccount", ALPHA))
    assert complaints(reply, Expect(404, "route-unknown")) == []


async def test_a_body_beyond_the_limit_is_too_large(world):
    body = b'{"remittance_information": "' + b"x" * (11 << 20) + b'"}'
    reply = await world.ask(Ask("POST", "/v3/payments", PAYER, body=body))
    assert complaints(reply, Expect(413, "request-too-large")) == []
