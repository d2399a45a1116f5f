"""Asking introspection endpoints, over a real one on loopback."""

import asyncio
from base64 import b64decode

import pytest
from aiohttp import web

from authz.introspect import Introspector
from authz.token import Claims
from model.instant import SECOND
from model.reason import Reason
from model.snapshot import Introspection


class Endpoint:
    """An RFC 7662 endpoint: counts questions, answers what it is told to, and can be held."""

    def __init__(self):
        self.answer = web.json_response
        self.members = {"active": True, "client_id": "alpha"}
        self.questions = []
        self.go = asyncio.Event()
        self.go.set()

    async def handle(self, request):
        form = await request.post()
        self.questions.append((b64decode(request.headers["Authorization"].removeprefix("Basic ")), form["token"]))
        await self.go.wait()
        return self.answer(self.members)


class Clock:
    def __init__(self):
        self.now = 1_800_000_000 * SECOND

    def __call__(self):
        return self.now


@pytest.fixture
async def endpoint():
    """The endpoint, served on a free port."""
    endpoint = Endpoint()
    app = web.Application()
    app.router.add_post("/introspect", endpoint.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    endpoint.url = f"http://127.0.0.1:{runner.addresses[0][1]}/introspect"
    yield endpoint
    endpoint.go.set()
    await runner.cleanup()


@pytest.fixture
async def asker(endpoint):
    """An introspector with two endpoints on one address, and its clock."""
    clock = Clock()
    settings = {
        name: Introspection(name, endpoint.url, "ward:gate", "SECRET", cache=30 * SECOND, negative_cache=5 * SECOND)
        for name in ("one", "two")
    }
    introspector = Introspector(settings, {"one": "p w", "two": ""}, clock)
    introspector.clock = clock
    yield introspector
    await introspector.close()


async def test_active_token_is_asked_about_once(endpoint, asker):
    """The answer is remembered for the cache's time and the client authenticates as RFC 6749 section 2.3.1 says."""
    assert isinstance(await asker.ask("one", "t"), Claims)
    assert isinstance(asker.recall("one", "t", asker.clock.now), Claims)
    assert isinstance(await asker.ask("one", "t"), Claims)
    assert endpoint.questions == [(b"ward%3Agate:p+w", "t")]
    asker.clock.now += 30 * SECOND
    assert asker.recall("one", "t", asker.clock.now) is None


async def test_inactive_token_is_remembered_shortly(endpoint, asker):
    """A token that becomes active is not refused for long."""
    endpoint.members = {"active": False}

    assert (await asker.ask("one", "t")).reason is Reason.TOKEN_INACTIVE
    assert asker.recall("one", "t", asker.clock.now + 5 * SECOND - 1) is not None
    assert asker.recall("one", "t", asker.clock.now + 5 * SECOND) is None


async def test_nothing_is_remembered_past_the_end_of_the_token(endpoint, asker):
    """The cache never outlives `exp`."""
    endpoint.members["exp"] = asker.clock.now // SECOND + 2
    await asker.ask("one", "t")

    assert asker.recall("one", "t", asker.clock.now + 2 * SECOND) is None


async def test_many_askers_share_one_question(endpoint, asker):
    """Single flight: a burst of one new token is one request to the endpoint."""
    endpoint.go.clear()
    askers = [asyncio.create_task(asker.ask("one", "t")) for _ in range(50)]
    while not endpoint.questions:  # noqa: ASYNC110 - the server has no event for an arrival
        await asyncio.sleep(0)
    askers[0].cancel()
    endpoint.go.set()
    answers = await asyncio.gather(*askers, return_exceptions=True)

    assert len(endpoint.questions) == 1
    assert all(isinstance(answer, Claims) for answer in answers[1:])


async def test_one_endpoints_answer_never_serves_another(endpoint, asker):
    """Two endpoints may know the same text as different tokens (pitfall 52)."""
    await asker.ask("one", "t")

    assert asker.recall("two", "t", asker.clock.now) is None


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: web.Response(status=500),
        lambda _: web.Response(status=302, headers={"Location": "http://127.0.0.1/"}),
        lambda _: web.Response(text="<html>"),
        lambda _: web.json_response({"active": "true"}),
        lambda _: web.Response(body=b" " * 70_000),
    ],
)
async def test_endpoint_that_gives_no_answer_is_unavailable(endpoint, asker, answer):
    """503, not 401, and asked again at the next request."""
    endpoint.answer = answer
    assert (await asker.ask("one", "t")).reason is Reason.IDENTITY_UNAVAILABLE
    endpoint.answer = web.json_response
    assert isinstance(await asker.ask("one", "t"), Claims)


async def test_endpoint_that_hangs_is_given_up(endpoint, asker):
    """The wait has an end of its own, inside Envoy's."""
    endpoint.go.clear()

    assert (await asker.ask("one", "t")).reason is Reason.IDENTITY_UNAVAILABLE


async def test_endpoint_off_https_and_loopback_is_never_asked():
    """A token is not sent in clear over a wire."""
    settings = Introspection("one", "http://192.0.2.1/introspect", "c", "S")
    introspector = Introspector({"one": settings}, {}, Clock())

    assert (await introspector.ask("one", "t")).reason is Reason.IDENTITY_UNAVAILABLE
    await introspector.close()


async def test_what_was_said_before_serves_lenient_callers_while_the_endpoint_is_away(endpoint, asker):
    """DESIGN section 7: reads pass on cached verdicts within their bound, everybody else is told to come back."""
    await asker.ask("one", "t")
    endpoint.answer = lambda _: web.Response(status=500)
    asker.clock.now += 31 * SECOND

    assert isinstance(await asker.ask("one", "t", lenient=True), Claims)
    assert (await asker.ask("one", "t")).reason is Reason.IDENTITY_UNAVAILABLE
    assert (await asker.ask("one", "never seen", lenient=True)).reason is Reason.IDENTITY_UNAVAILABLE
    asker.clock.now += 300 * SECOND
    assert (await asker.ask("one", "t", lenient=True)).reason is Reason.IDENTITY_UNAVAILABLE


async def test_refused_token_never_serves_anybody_later(endpoint, asker):
    """An inactive token does not become an excuse while the endpoint is away."""
    endpoint.members = {"active": False}
    await asker.ask("one", "t")
    endpoint.answer = lambda _: web.Response(status=500)
    asker.clock.now += 6 * SECOND

    assert (await asker.ask("one", "t", lenient=True)).reason is Reason.IDENTITY_UNAVAILABLE


async def test_silent_endpoint_is_left_alone_for_a_while(endpoint, asker):
    """Only one decision waits for it, not every one."""
    endpoint.go.clear()
    await asker.ask("one", "t")
    endpoint.go.set()

    assert (await asker.ask("one", "u")).reason is Reason.IDENTITY_UNAVAILABLE
    assert len(endpoint.questions) == 1
    asker.clock.now += SECOND
    assert isinstance(await asker.ask("one", "u"), Claims)


async def test_questions_about_different_tokens_do_not_stand_in_line(endpoint, asker):
    """Each has its own connection: one that is slow does not use up the time of the others."""
    endpoint.go.clear()
    askers = [asyncio.create_task(asker.ask("one", f"t{number}")) for number in range(8)]
    async with asyncio.timeout(5):
        while len(endpoint.questions) < 8:  # noqa: ASYNC110 - the server has no event for an arrival
            await asyncio.sleep(0)
    endpoint.go.set()
    await asyncio.gather(*askers)

    assert sorted(token for _, token in endpoint.questions) == [f"t{number}" for number in range(8)]
