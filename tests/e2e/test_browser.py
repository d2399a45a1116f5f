"""Browsers get their preflight without a credential, and error documents that they may read (bug report H-14)."""

import pytest

from demo.row import Expect, complaints, describe
from demo.world import Ask

PRODUCTS = "/v3/open-data/products"
ORIGIN = ("Origin", "https://app.open-banking.example")
FOREIGN = ("Origin", "https://evil.example")


def ask(method, *headers):
    return Ask(method, PRODUCTS, identity=None, plane="PUBLIC", headers=headers)


async def test_a_preflight_is_answered_before_anything_else(world):
    before = len(await world.events("ledger", method="ListProducts"))
    reply = await world.ask(ask("OPTIONS", ORIGIN, ("Access-Control-Request-Method", "GET")))
    assert reply.status == 200, describe(reply)
    assert ORIGIN[1] == reply.header("access-control-allow-origin")
    assert "GET" in reply.header("access-control-allow-methods")
    assert before == len(await world.events("ledger", method="ListProducts"))


async def test_a_preflight_of_another_origin_gets_no_permission(world):
    reply = await world.ask(ask("OPTIONS", FOREIGN, ("Access-Control-Request-Method", "GET")))
    assert reply.header("access-control-allow-origin") is None


async def test_an_answer_may_be_read_by_a_page_of_the_allowed_origin(world):
    reply = await world.ask(ask("GET", ORIGIN))
    assert (200, ORIGIN[1]) == (reply.status, reply.header("access-control-allow-origin"))


async def test_a_refusal_may_be_read_too(world):
    reply = await world.ask(ask("GET", ORIGIN, ("Authorization", "Bearer not.a.token")))
    assert complaints(reply, Expect(401)) == []
    assert ORIGIN[1] == reply.header("access-control-allow-origin")


@pytest.mark.parametrize("headers", [(), (ORIGIN,)], ids=["plain", "with an origin"])
async def test_options_that_is_no_preflight_is_no_way_in(world, headers):
    reply = await world.ask(ask("OPTIONS", *headers))
    assert reply.status in {401, 404, 405}, describe(reply)
    assert complaints(reply, Expect(reply.status)) == []
