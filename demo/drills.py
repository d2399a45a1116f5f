"""The tour's rows that take more than one request, or that are not HTTP at all."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace

import grpc

from demo.backend import LEDGER, Catalogue
from demo.cases import ALPHA, FORGED, PAYMENT
from demo.client import Connection, Refused, Reply, connect
from demo.row import Expect, Row, complaints, describe
from demo.world import Ask, Token, World, unique

MOST = 1000  # requests; a burst ends as soon as it is refused, which comes after about a tenth of that
WHOLE, REFILL = 100, 10  # what the bucket of 600/min with burst 2x for 10 s holds, and what flows back each second
LANES = 10
TRIES = 3
PAYER = replace(ALPHA, scope="payments")
WINDOW = (2500.0, 2600.0)  # milliseconds: the upstream budget, and what the gateway may add

Drill = Callable[[World], Awaitable[Row]]
Method = Callable[..., Awaitable[bytes]]


async def burst(world: World) -> Row:
    """Spend the burst of one partner: it gets 429, and its neighbour is not harmed."""
    target = "/v3/accounts/current/transactions"
    beta = Ask("GET", target, Token("fintech-beta"), "fintech-beta")
    await _refill(world, beta)
    began = time.monotonic()
    spender = asyncio.create_task(_flood(world, beta))
    calm = [await world.ask(Ask("GET", target, ALPHA)) for _ in range(10)]
    replies = await spender
    most = WHOLE + REFILL * (time.monotonic() - began) + 1
    faults = [fault for reply in replies if reply.status == 429 for fault in complaints(reply, SPENT)]
    counts = Counter(reply.status for reply in replies)
    harmed = sum(reply.status != 200 for reply in calm)
    ok = not faults and not harmed and set(counts) == {200, 429} and WHOLE - 1 <= counts[200] <= most
    got = f"{counts[200]} x 200, {counts[429]} x 429; neighbour: {harmed} refused" + _list(faults[:2])
    expected = "100 x 200 and 10 more a second, then 429 Retry-After; neighbour: 0 refused"
    return Row("a burst by fintech-beta", expected, got, ok)


async def _refill(world: World, ask: Ask) -> None:
    """Wait until a partner's bucket is whole, since a tour before this one may have emptied it."""
    left = re.search(r";r=(\d+)", (await world.ask(ask)).header("ratelimit") or "")
    missing = WHOLE - int(left[1]) if left else 0
    await asyncio.sleep(max(0, missing) / REFILL)


SPENT = Expect(429, "quota-exceeded", {"retry-after": r"[1-9]\d*", "ratelimit": r'"partner";r=0.*'})


async def _flood(world: World, ask: Ask) -> list[Reply]:
    replies: list[Reply] = []

    async def lane() -> None:
        async with connect(world.endpoint(ask.identity, ask.plane)) as connection:
            refused = 0
            while refused < 3 and len(replies) < MOST:
                replies.append(await world.ask_on(connection, ask))
                refused += replies[-1].status == 429

    await asyncio.gather(*(lane() for _ in range(LANES)))
    return replies


async def hanging(world: World) -> Row:
    """Ask a backend that never answers: 504 within the budget, one call, which the backend sees cancelled."""

    def ask(account: str) -> Ask:
        return Ask("GET", f"/v3/accounts/{account}", ALPHA)

    return await _hang(world, "backend never answers a GET", "ledger", ask)


async def hanging_post(world: World) -> Row:
    """Send a payment that never answers: it is never sent twice."""

    def ask(payment: str) -> Ask:
        return Ask("POST", "/v3/payments", PAYER, body={**PAYMENT, "end_to_end_id": payment})

    return await _hang(world, "backend never answers a POST", "payments", ask)


async def _hang(world: World, title: str, backend: str, ask: Callable[[str], Ask]) -> Row:
    """Try again where the answer came late and was right: a busy machine delays this client as well."""
    for _ in range(TRIES):
        row = await _hang_once(world, title, backend, ask)
        if row.ok or (row.milliseconds or 0) <= WINDOW[1]:
            break
    return row


async def _hang_once(world: World, title: str, backend: str, ask: Callable[[str], Ask]) -> Row:
    identifier = unique("hang")
    reply = await world.ask(ask(identifier))
    events = Counter[str]()
    for _ in range(20):  # the cancellation travels on its own
        events = Counter(event["event"] for event in await world.events(backend, id=identifier))
        if events["cancelled"]:
            break
        await asyncio.sleep(0.05)
    spent = reply.seconds * 1000
    ok = not complaints(reply, Expect(504, "upstream-timeout")) and WINDOW[0] <= spent <= WINDOW[1]
    got = f"{describe(reply)} in {spent:.0f} ms, {events['call']} call, {events['cancelled']} cancelled"
    expected = "504 in 2,500-2,600 ms, 1 call, 1 cancelled"
    return Row(title, expected, got, ok and events == {"call": 1, "cancelled": 1}, spent)


async def failing_post(world: World) -> Row:
    """Send a payment that fails: it is never sent twice."""
    payment = unique("busy")
    reply = await world.ask(Ask("POST", "/v3/payments", PAYER, body={**PAYMENT, "end_to_end_id": payment}))
    calls = len(await world.events("payments", event="call", id=payment))
    ok = not complaints(reply, Expect(503)) and calls == 1
    return Row("backend fails a POST", "503, 1 call", f"{describe(reply)}, {calls} call", ok, reply.seconds * 1000)


async def forged_headers(world: World) -> Row:
    """Send identity headers that a client made up: none reaches the backend, the signed one does."""
    reply = await world.ask(Ask("GET", "/v3/accounts/echo", ALPHA, headers=FORGED))
    document = reply.json() or {}
    seen: dict[str, str] = document.get("metadata", {}) if reply.status == 200 else {}
    leaked = sorted(name for name, value in FORGED if seen.get(name.lower()) == value or "boss" in str(seen))
    signed = seen.get("x-verified-caller-context", "").count(".") == 2
    got = f"{reply.status}, leaked: {', '.join(leaked) or 'none'}, context: {'signed' if signed else 'missing'}"
    expected = "200, leaked: none, context: signed"
    return Row("forged identity headers", expected, got, got == expected, reply.seconds * 1000)


async def malformed(world: World) -> Row:
    """Send bytes that are not HTTP: they are refused at the edge."""
    async with connect(world.endpoint("fintech-alpha")) as connection:
        reply = await connection.send_raw(b"GET /v3/accounts HTTP/1.1\r\nHost: a\r\nbroken header line\r\n\r\n")
    found = complaints(reply, Expect(400, "request-malformed"))
    got = describe(reply) + _list(found)
    return Row("malformed HTTP", "400 request-malformed", got, not found, reply.seconds * 1000)


async def stranger(world: World) -> Row:
    """Come with a certificate of an unknown CA: it ends in the handshake, and no backend hears of it."""
    began = time.time()
    got = await _handshake(world, "stranger")
    late = [event for event in await world.events("ledger", event="call") if event["time"] >= began]
    return _no_handshake("client certificate of an unknown CA", got, len(late))


async def nobody(world: World) -> Row:
    """Come without a client certificate: there is no handshake on the partner plane."""
    began = time.time()
    got = await _handshake(world, None)
    late = [event for event in await world.events("ledger", event="call") if event["time"] >= began]
    return _no_handshake("no client certificate", got, len(late))


async def _handshake(world: World, identity: str | None) -> str:
    token = await world.token(ALPHA)
    try:
        connection = await Connection.open(world.endpoint(identity))
        reply = await connection.send("GET", "/v3/accounts/current", [("Authorization", f"Bearer {token}")])
    except Refused:
        return "handshake fails"
    return describe(reply)


def _no_handshake(title: str, got: str, calls: int) -> Row:
    expected = "handshake fails, 0 backend calls"
    got = f"{got}, {calls} backend calls"
    return Row(title, expected, got, got == expected)


async def direct(world: World) -> Row:
    """Call a backend past the gateway, over the mesh's own mTLS: it refuses what carries no caller context."""
    pki, (host, port) = world.settings.pki, world.settings.address("LEDGER")
    credentials = grpc.ssl_channel_credentials(
        (pki / "mesh-ca.pem").read_bytes(), (pki / "gateway.key").read_bytes(), (pki / "gateway.pem").read_bytes()
    )
    request = Catalogue(world.settings.descriptors).make(f"{LEDGER}.GetAccountRequest", account_id="current")
    options = [("grpc.ssl_target_name_override", "account-ledger")]
    async with grpc.aio.secure_channel(f"{host}:{port}", credentials, options=options) as channel:
        call: Method = channel.unary_unary(f"/{LEDGER}.AccountLedger/GetAccount")
        try:
            await call(request.SerializeToString(), timeout=5)
            got = "OK"
        except grpc.aio.AioRpcError as error:
            got = error.code().name
    return Row("backend called directly, no context", "PERMISSION_DENIED", got, got == "PERMISSION_DENIED")


def _list(faults: list[str]) -> str:
    return f" ({'; '.join(faults)})" if faults else ""


DRILLS: tuple[Drill, ...] = (
    burst,
    hanging,
    hanging_post,
    failing_post,
    forged_headers,
    malformed,
    stranger,
    nobody,
    direct,
)
