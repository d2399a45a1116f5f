"""No spelling of a path walks around a route's requirement (bug reports H-01, H-03, H-15)."""

import pytest

from demo.cases import ALPHA
from demo.client import connect
from demo.row import Expect, complaints, describe
from demo.settings import EDGE_NAME
from demo.world import Ask, unique

WALKS = (
    "/v3/accounts/../payments/{id}",
    "/v3/accounts/./../payments/{id}",
    "/v3/accounts/%2e%2e/payments/{id}",
    "/v3/accounts/%2E%2E/payments/{id}",
    "/v3/accounts/.%2e/payments/{id}",
    "/v3/accounts/..%2fpayments%2f{id}",
    "/v3/accounts/..%5cpayments%5c{id}",
    "/v3/accounts/..\\payments\\{id}",
    "/v3/accounts;x/../payments/{id}",
    "/v3/accounts%2f..%2fpayments/{id}",
    "//v3/payments/{id}",
    "/v3//payments///{id}",
    "/v3/payments/{id}?next=/v3/accounts",
    "/v3/accounts/%252e%252e/payments/{id}",
)


@pytest.mark.parametrize("path", WALKS)
async def test_a_token_for_accounts_reaches_no_payment_by_any_spelling(world, path):
    payment = unique("p")
    reply = await world.ask(Ask("GET", path.format(id=payment), ALPHA))
    assert reply.status in {400, 403, 404}, describe(reply)
    assert complaints(reply, Expect(reply.status)) == []
    assert await world.events("payments", id=payment) == []


@pytest.mark.parametrize("path", ["/v3%2faccounts", "/v3/accounts%5ccurrent", "/v3/accounts%2Fcurrent"])
async def test_an_escaped_separator_is_a_bad_request(world, path):
    reply = await world.ask(Ask("GET", path, ALPHA))
    assert complaints(reply, Expect(400, "request-malformed")) == []


async def test_a_query_is_carried_on_as_it_is(world):
    reply = await world.ask(Ask("GET", "/v3/accounts/a/transactions?booked_from=x%2f..%2fy%20z", ALPHA))
    assert reply.json()["request"]["booked_from"] == "x/../y z"


async def test_an_upper_case_path_is_another_path(world):
    reply = await world.ask(Ask("GET", "/V3/ACCOUNTS", ALPHA))
    assert complaints(reply, Expect(404, "route-unknown")) == []


@pytest.mark.parametrize("path", ["/v3/accountsx", "/v3/accounts/a/b/c", "/v3", "/"])
async def test_a_path_that_only_begins_like_a_route_is_unknown(world, path):
    reply = await world.ask(Ask("GET", path, ALPHA))
    assert complaints(reply, Expect(404, "route-unknown")) == []


async def test_a_method_that_no_route_serves_is_refused(world):
    reply = await world.ask(Ask("DELETE", "/v3/accounts/current", ALPHA))
    assert reply.status in {404, 405}, describe(reply)
    assert complaints(reply, Expect(reply.status)) == []


async def test_a_secret_in_the_query_is_in_no_log_and_in_no_answer(world, demo):
    reply = await world.ask(Ask("GET", "/v3/accounts?access_token=S3CRETQUERY", ALPHA))
    assert b"S3CRETQUERY" not in reply.body
    assert not [name for name in ("envoy", "sidecar", "ledger") if "S3CRETQUERY" in demo.log(name)]


@pytest.mark.parametrize(
    ("head", "status"),
    [("POST /v3/nowhere HTTP/1.1", 404), ("CONNECT api:443 HTTP/1.1", 404), ("DELETE /v3/accounts HTTP/1.1", 401)],
)
async def test_a_body_that_nobody_may_send_is_not_waited_for(world, head, status):
    """Where no route fits nobody is asked: a stranger's body must cost no memory, and the answer no time."""
    async with connect(world.endpoint("fintech-alpha")) as connection:
        length = "" if head.startswith("CONNECT") else "Content-Length: 1000000\r\n"
        reply = await connection.send_raw(f"{head}\r\nHost: {EDGE_NAME}\r\n{length}\r\n".encode())
    assert complaints(reply, Expect(status)) == []
    assert reply.seconds < 5
