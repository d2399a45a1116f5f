"""Lists and responses over real connections: what a server does wrong is bounded and named, and nobody waits for it."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from authz.ocsp import MAX_RESPONSE
from model.reason import Reason
from tests.authz import pki
from tests.authz.fetching import Notes, access, fetcher_of, reason_of
from tests.authz.revoking import crl_of, parsed


@asynccontextmanager
async def served(handler):
    """A real server on a free port of this host, which answers everything with `handler`."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield "http://{}:{}".format(*runner.addresses[0][:2])
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda base: web.Response(status=302, headers={"Location": f"{base}/elsewhere"}), "status 302"),
        (lambda _: web.Response(status=500), "status 500"),
        (lambda _: web.Response(body=b"x", headers={"Content-Encoding": "gzip"}), "the body is packed"),
        (lambda _: web.Response(body=bytes(MAX_RESPONSE + 1)), f"more than {MAX_RESPONSE} octets"),
        (lambda _: web.Response(body=b"junk"), "the response cannot be parsed"),
    ],
)
async def test_what_a_server_does_wrong_is_bounded_and_named(root, clock, answer, why):
    """Redirects, errors, packed and endless bodies: one exchange, one note, nothing taken over."""
    seen, notes = [], Notes()

    async def handler(request):
        seen.append((request.method, request.path, request.content_type))
        return answer(f"http://{request.host}")

    async with served(handler) as base:
        leaf = pki.qwac(root, extra=[access(f"{base}/status")])
        fetcher = fetcher_of(clock, notes=notes)
        fetcher.apply([], [base.removeprefix("http://")], [parsed(root)])
        reason_of(fetcher, leaf, root, clock)
        await fetcher.refresh()
        await fetcher.close()
    assert seen == [("POST", "/status", "application/ocsp-request")]
    assert notes.failed == [(f"{base}/status", why)]
    assert fetcher.book.responses == {}


async def test_a_list_is_read_before_the_start_returns(root, clock):
    """A list from a real server, read by the time that the start returns."""
    listed, other = pki.qwac(root), pki.qwac(root)

    async def handler(request):
        return web.Response(body=crl_of(root, [listed.certificate.serial_number]))

    async with served(handler) as base:
        fetcher = fetcher_of(clock)
        fetcher.apply([f"{base}/root.crl"], [], [parsed(root)])
        await fetcher.start()
        await fetcher.close()
    assert reason_of(fetcher, listed, root, clock) is Reason.CERTIFICATE_REVOKED
    assert reason_of(fetcher, other, root, clock) is None


async def test_a_server_that_packs_what_may_be_packed_is_asked_for_a_plain_list(root, clock):
    """A packed body is refused, so none may be asked for: many servers compress lists where the client lets them."""

    async def handler(request):
        response = web.Response(body=crl_of(root))
        response.enable_compression()  # only where the request accepts it
        return response

    notes = Notes()
    async with served(handler) as base:
        fetcher = fetcher_of(clock, notes=notes)
        fetcher.apply([f"{base}/root.crl"], [], [parsed(root)])
        await fetcher.refresh()
        await fetcher.close()
    assert notes.failed == []
    assert len(fetcher.book.lists) == 1


async def test_a_slow_source_keeps_nobody_from_starting(root, clock):
    """The start waits for so long and no longer; the list comes when it comes."""
    release = asyncio.Event()

    async def slow(url, body, limit):
        await release.wait()
        return crl_of(root)

    fetcher = fetcher_of(clock, slow)
    fetcher.apply(["http://crl.example/root"], [], [parsed(root)])
    await fetcher.start(patience=0.01)
    await fetcher.start(patience=0.01)
    assert fetcher.book.lists == {}
    release.set()
    await fetcher.refresh()
    assert len(fetcher.book.lists) == 1
    await fetcher.close()


async def test_a_server_that_is_not_there_is_a_note(root, clock):
    """Refused connections are failures like others."""

    async def handler(request):
        return web.Response()

    async with served(handler) as base:
        pass
    notes = Notes()
    fetcher = fetcher_of(clock, notes=notes)
    fetcher.apply([f"{base}/root.crl"], [], [parsed(root)])
    await fetcher.refresh()
    await fetcher.close()
    assert len(notes.failed) == 1
