"""The HTTP side: what an operator, a probe and an upstream can read."""

import contextlib

import aiohttp
import pytest

from sidecar.admin import Admin
from sidecar.server import AddressUnusable


class Gateway:
    """Something to be operated; what it says is what the test wrote into it."""

    missing = None

    async def ready(self):
        return self.missing

    async def metrics_text(self):
        return b"wardgate_ready 1.0\n"

    async def jwks(self):
        return '{"keys": []}'

    async def snapshot(self):
        return {"version": "1", "last_error": "gateway.yaml:1:1: wrong"}

    async def explain(self, question):
        if "route" not in question:
            raise ValueError("no route")
        return {"route": question["route"]}


@contextlib.asynccontextmanager
async def operated():
    """A gateway, and a client of its admin side."""
    gateway = Gateway()
    admin = Admin(gateway, "127.0.0.1:0")
    address = await admin.start()
    try:
        async with aiohttp.ClientSession(f"http://{address}") as client:
            yield client, gateway
    finally:
        await admin.stop()


async def get(client, path):
    async with client.get(path) as answer:
        return answer.status, answer.headers, await answer.text()


async def test_liveness_is_one_thing_and_readiness_another():
    """G-05, F-09: alive while not ready, and the reason is told."""
    async with operated() as (client, gateway):
        assert (await get(client, "/readyz"))[0] == 200
        gateway.missing = "draining"
        assert (await get(client, "/readyz"))[::2] == (503, "draining\n")
        assert (await get(client, "/healthz"))[0] == 200


async def test_the_key_set_is_a_jwk_set_that_may_be_kept_for_a_minute():
    async with operated() as (client, _):
        status, headers, text = await get(client, "/.well-known/jwks.json")
        assert (status, text) == (200, '{"keys": []}')
        assert headers["content-type"].startswith("application/jwk-set+json")
        assert headers["cache-control"] == "public, max-age=60"


async def test_snapshot_and_metrics_are_given_in_their_formats():
    async with operated() as (client, _):
        async with client.get("/snapshot") as answer:
            assert (await answer.json())["last_error"] == "gateway.yaml:1:1: wrong"
        _, headers, text = await get(client, "/metrics")
        assert headers["content-type"].startswith("text/plain; version=")
        assert text == "wardgate_ready 1.0\n"


async def test_a_question_that_cannot_be_answered_is_the_askers_fault():
    async with operated() as (client, _):
        async with client.get("/explain", params={"route": "home"}) as answer:
            assert await answer.json() == {"route": "home"}
        async with client.get("/explain") as answer:
            assert (answer.status, await answer.json()) == (400, {"error": "no route"})


@pytest.mark.parametrize("path", ["/", "/quitquitquit", "/snapshot/"])
async def test_nothing_else_is_there(path):
    async with operated() as (client, _):
        assert (await get(client, path))[0] == 404


async def test_nothing_can_be_changed():
    async with operated() as (client, _), client.post("/snapshot") as answer:
        assert answer.status == 405


async def test_a_taken_port_is_said_to_be_taken():
    async with operated() as (client, gateway):
        with pytest.raises(AddressUnusable):
            await Admin(gateway, f"127.0.0.1:{client._base_url.port}").start()
