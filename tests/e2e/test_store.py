"""The same document over Redis: limits hold, and when Redis goes accuracy is all that is lost (DESIGN section 7)."""

import asyncio
import contextlib
import shutil
import signal
import subprocess
from collections import Counter

import pytest
import redis

from demo.client import connect
from demo.drills import burst
from demo.world import Ask, Token
from tests.demo.build import free_port, until
from tests.e2e.build import Demo

pytestmark = [
    pytest.mark.redis,
    pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed"),
]


class Server:
    """A redis-server that can be killed and started again on its port."""

    def __init__(self, folder):
        self.port = free_port()
        self._folder = folder
        self.process = self.start()

    def start(self):
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(command, cwd=self._folder, stdout=subprocess.DEVNULL)
        return self.process

    def end(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.wait()

    def keys(self):
        with contextlib.closing(redis.Redis(port=self.port)) as client:
            return [bytes(key) for key in client.scan_iter()]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("redis"))
    yield running
    running.end()


@pytest.fixture(scope="module")
def demo(server):
    running = Demo(extra={"WARDGATE_STORE": f"redis://127.0.0.1:{server.port}/0"})
    try:
        yield running.start()
    finally:
        running.stop()


async def test_a_burst_is_limited_as_with_counters_in_memory(world):
    row = await burst(world)
    assert row.ok, row.got


async def test_no_key_names_a_credential(world, server):
    token = Token("fintech-alpha")
    await world.ask(Ask("GET", "/v3/accounts/current", token))
    names = b" ".join(server.keys())
    assert names
    assert (await world.token(token)).encode() not in names


async def test_without_redis_requests_are_answered_and_limits_still_hold(world, server):
    alpha = Ask("GET", "/v3/accounts/current", Token("fintech-alpha"))
    beta = Ask("GET", "/v3/accounts", Token("fintech-beta"), "fintech-beta")
    await world.token(beta.token)
    server.end()
    try:
        async with connect(world.endpoint("fintech-alpha")) as connection:
            assert Counter([(await world.ask_on(connection, alpha)).status for _ in range(20)]) == {200: 20}
        async with connect(world.endpoint("fintech-beta")) as connection:
            noisy = Counter([(await world.ask_on(connection, beta)).status for _ in range(200)])
        assert {200, 429} == set(noisy)
    finally:
        server.start()

    async def shared_again():
        await world.ask(alpha)
        with contextlib.suppress(redis.ConnectionError):
            return bool(await asyncio.to_thread(server.keys))

    await until(shared_again, 30)


async def test_a_gateway_starts_without_its_redis():
    running = Demo(extra={"WARDGATE_STORE": f"redis://127.0.0.1:{free_port()}/0"})
    try:
        reply = await running.start().world.ask(Ask("GET", "/v3/accounts/current", Token("fintech-alpha")))
        assert reply.status == 200
    finally:
        running.stop()
