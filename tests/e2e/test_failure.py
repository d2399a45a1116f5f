"""What goes away costs what DESIGN section 7 says, and comes back by itself (bug reports M-01, M-06, M-08, O-04)."""

import asyncio
import contextlib
import signal
from collections import Counter

import pytest

from demo.cases import ALPHA, PAYMENT
from demo.client import Refused, connect
from demo.row import Expect, complaints, describe
from demo.world import Ask, Token, unique
from tests.demo.build import until
from tests.e2e.build import Demo

AWAY = Expect(503, "policy-unavailable", {"retry-after": "5"})
UNSERVED = Expect(503, headers={"retry-after": r"\d+"})  # away, or back and still without the issuer's keys
LOADERS = 4
PAUSE = 0.05  # seconds between the requests of one loader: 80 a second in all, far below the limit set here


@pytest.fixture(scope="module")
def demo():
    """A demo whose limits do not stand in the way, and whose ledger has a narrow breaker for payments."""
    running = Demo()
    running.edit(("600/min burst 2x for 10s", "600000/min burst 2x for 10s"))
    running.edit(("    services: [openbanking.payments.v1.PaymentInitiation]\n", f"{SERVICES}{BREAKER}"))
    try:
        yield running.start()
    finally:
        running.stop()


SERVICES = "    services: [openbanking.payments.v1.PaymentInitiation]\n"
BREAKER = "    breaker: {requests: 5}\n"
ACCOUNT = Ask("GET", "/v3/accounts/current", ALPHA)
PAYER = Token("fintech-alpha", "payments")


@contextlib.asynccontextmanager
async def load(world, seen):
    """Send requests, each on a connection of its own, for as long as the block lasts; note how each ended."""
    await world.token(ALPHA)

    async def loader():
        while True:
            try:
                reply = await world.ask(ACCOUNT)
                seen.append(reply.status)
                assert reply.status == 200 or not complaints(reply, UNSERVED), reply
            except Refused as error:
                seen.append(str(error).partition(":")[0])
            await asyncio.sleep(PAUSE)

    tasks = [asyncio.create_task(loader()) for _ in range(LOADERS)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert not [error for error in ended if not isinstance(error, asyncio.CancelledError)]


async def returns(world):
    """Wait until requests are answered again."""

    async def served():
        with contextlib.suppress(Refused):
            return (await world.ask(ACCOUNT)).status == 200

    await until(served, 30)


async def test_without_a_sidecar_every_request_is_503_and_none_reaches_a_backend(world, demo):
    account = unique("never")
    program = demo.supervisor._programs["sidecar"]
    await asyncio.to_thread(demo.run, demo.supervisor.stop("sidecar"))
    try:
        reply = await world.ask(Ask("GET", f"/v3/accounts/{account}", ALPHA))
        assert complaints(reply, AWAY) == []
    finally:
        await asyncio.to_thread(demo.run, demo.supervisor.start(program))
    await returns(world)
    assert await world.events("ledger", id=account) == []


async def test_a_sidecar_that_does_not_answer_in_time_is_503_too(world, demo):
    demo.signal("sidecar", signal.SIGSTOP)
    try:
        reply = await world.ask(ACCOUNT)
    finally:
        demo.signal("sidecar", signal.SIGCONT)
    assert complaints(reply, AWAY) == []
    await returns(world)


async def test_a_sidecar_killed_under_load_costs_503s_only_and_comes_back_by_itself(world, demo):
    seen = []
    async with load(world, seen):
        await asyncio.sleep(0.5)
        killed = demo.signal("sidecar")
        await asyncio.sleep(0.3)
        await returns(world)
        back = len(seen)
        await asyncio.sleep(0.5)
    assert {200, 503} == set(seen)
    assert {200} == set(seen[back:])
    assert killed != demo.pid("sidecar")


async def test_a_sidecar_that_is_told_to_stop_answers_what_it_has_begun(world, demo):
    seen = []
    async with load(world, seen):
        await asyncio.sleep(0.3)
        told = demo.signal("sidecar", signal.SIGTERM)
        await until(lambda: demo.pid("sidecar") != told, 20)
        await returns(world)
    assert {200, 503} == set(seen)


async def test_an_envoy_killed_under_load_comes_back_by_itself(world, demo):
    seen = []
    async with load(world, seen):
        await asyncio.sleep(0.3)
        killed = demo.signal("envoy")
        await asyncio.sleep(0.3)
        await returns(world)
        back = len(seen)
        await asyncio.sleep(0.5)
    assert set(seen) <= {200, "handshake", "no reply"}
    assert {200} == set(seen[back:])
    assert killed != demo.pid("envoy")


async def test_a_get_that_the_backend_fails_is_not_sent_again(world):
    account = unique("busy")
    reply = await world.ask(Ask("GET", f"/v3/accounts/{account}", ALPHA))
    assert complaints(reply, Expect(503)) == []
    assert len(await world.events("ledger", event="call", id=account)) == 1


@pytest.mark.parametrize("kind", ["busy", "broken", "exhausted"])
@pytest.mark.parametrize("headers", [(), (("Idempotency-Key", "1"),)], ids=["plain", "with an idempotency key"])
async def test_a_post_that_reached_the_backend_is_sent_once(world, kind, headers):
    payment = unique(kind)
    body = {**PAYMENT, "end_to_end_id": payment}
    reply = await world.ask(Ask("POST", "/v3/payments", PAYER, headers=headers, body=body))
    assert reply.status >= 400
    assert len(await world.events("payments", event="call", id=payment)) == 1


async def test_a_backend_killed_under_a_post_sees_it_once(world, demo):
    payment = unique("hang")
    body = {**PAYMENT, "end_to_end_id": payment}
    asking = asyncio.create_task(world.ask(Ask("POST", "/v3/payments", PAYER, body=body)))
    await until(lambda: world.events("payments", id=payment), 2)
    demo.signal("payments")
    reply = await asking
    assert complaints(reply, Expect(503)) == []
    events = []

    async def back():
        with contextlib.suppress(OSError):
            events.append(await world.events("payments", id=payment))
        return bool(events)

    await until(back, 20)
    assert events == [[]]


async def test_many_slow_requests_at_once_all_find_room(world):
    ask = Ask("GET", f"/v3/accounts/{unique('slow')}", ALPHA)
    await world.token(ALPHA)
    async with contextlib.AsyncExitStack() as stack:
        # opened beforehand: this is about requests under way at one time, not about handshakes
        opened = [await stack.enter_async_context(connect(world.endpoint("fintech-alpha"))) for _ in range(120)]
        replies = await asyncio.gather(*(world.ask_on(connection, ask) for connection in opened))
    assert Counter(map(describe, replies)) == {"200": 120}


async def test_what_exceeds_a_breaker_is_told_so_at_once(world):
    ask = Ask("GET", f"/v3/payments/{unique('slow')}", PAYER)
    await world.token(PAYER)
    replies = await asyncio.gather(*(world.ask(ask) for _ in range(40)))
    refused = [reply for reply in replies if reply.status != 200]
    assert refused, Counter(map(describe, replies))
    assert len(refused) < len(replies)
    for reply in refused:
        assert complaints(reply, Expect(503, headers={"retry-after": r"\d+"})) == []


async def test_one_dead_backend_harms_no_other(world):
    dead = Ask("GET", "/v3/funds/current", Token("fintech-alpha", "fundsconfirmations"))
    async with connect(world.endpoint("fintech-alpha")) as connection:
        for _ in range(20):
            assert (await world.ask_on(connection, dead)).status == 503
            assert (await world.ask_on(connection, ACCOUNT)).status == 200
