"""What every selectable server does: sockets, health, keepalive, age, drain (abuse: test_abuse.py, test_break.py)."""

import asyncio
import socket
import stat

import grpc
import grpc.aio
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from model.rpc import RpcError
from sidecar.health import Health
from sidecar.server import AddressUnusable, Method, Options, claim_socket, socket_path
from sidecar.worker import SERVERS
from tests.sidecar.build import SECOND, call, channel, serving, short_folder

ECHO = "/wardgate.test.Echo/Say"
PARROT = "/wardgate.test.Echo/Repeat"

NOT_SERVING = HealthCheckResponse.NOT_SERVING
SERVING = HealthCheckResponse.SERVING
UNKNOWN = HealthCheckResponse.SERVICE_UNKNOWN


async def say(data):
    if data == b"refuse":
        raise RpcError(8, "no more")
    if data == b"raise":
        raise ZeroDivisionError
    return data


async def repeat(messages):
    async for data in messages:
        yield await say(data)


METHODS = [Method(ECHO, unary=say), Method(PARROT, stream=repeat)]

pytestmark = pytest.mark.parametrize("opener", [pytest.param(made, id=name) for name, made in SERVERS.items()])


async def test_bytes_go_in_and_come_out_over_tcp_and_over_a_socket(opener):
    with short_folder() as folder:
        for address in ("127.0.0.1:0", f"unix:{folder}/w.sock"):
            async with serving(METHODS, opener=opener, address=address) as bound, channel(bound) as made:
                assert await call(made, ECHO, b"\x00\xff") == b"\x00\xff"
                assert await call(made, ECHO, b"") == b""
                stream = made.stream_stream(PARROT)(iter([b"a", b"", b"c"]))
                assert [data async for data in stream] == [b"a", b"", b"c"]


async def test_an_rpc_error_is_its_status_and_anything_else_is_internal(opener):
    async with serving(METHODS, opener=opener) as address, channel(address) as made:
        for data, code in ((b"refuse", grpc.StatusCode.RESOURCE_EXHAUSTED), (b"raise", grpc.StatusCode.INTERNAL)):
            with pytest.raises(grpc.aio.AioRpcError) as unary:
                await call(made, ECHO, data)
            with pytest.raises(grpc.aio.AioRpcError) as stream:
                [_ async for _ in made.stream_stream(PARROT)(iter([b"a", data]))]
            assert (unary.value.code(), stream.value.code()) == (code, code)
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await call(made, "/wardgate.test.Echo/Nothing")
        assert unknown.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_socket_has_the_mode_that_was_asked_for_and_goes_with_its_server(opener):
    with short_folder() as folder:
        path = folder / "w.sock"
        options = Options(socket_mode=0o666)
        async with serving(METHODS, opener=opener, address=f"unix:{path}", options=options):
            assert stat.S_IMODE(path.stat().st_mode) == 0o666
        assert not path.exists()


async def test_a_stale_socket_is_replaced_and_a_live_one_is_not(opener):
    with short_folder() as folder:
        path = folder / "w.sock"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
        async with serving(METHODS, opener=opener, address=f"unix:{path}") as address, channel(address) as made:
            with pytest.raises(AddressUnusable, match="listening"):
                await opener(METHODS, address, Options()).start()
            assert await call(made, ECHO, b"still here") == b"still here"


async def test_a_taken_port_is_said_to_be_taken(opener):
    async with serving(METHODS, opener=opener) as address:
        with pytest.raises(AddressUnusable):
            await opener(METHODS, address, Options()).start()


async def test_pings_every_second_without_calls_are_tolerated(opener):
    """G-03: a peer that pings far more often than grpc's default of once in five minutes is not cut."""
    options = [
        ("grpc.keepalive_time_ms", 1000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]
    async with serving(METHODS, opener=opener) as address, channel(address, options) as made:
        assert await call(made, ECHO, b"a") == b"a"
        await asyncio.sleep(4.5)
        assert made.get_state() is grpc.ChannelConnectivity.READY
        assert await call(made, ECHO, b"b") == b"b"


async def test_no_call_is_lost_when_connections_reach_their_age(opener):
    """G-04: connections are recycled every 200 ms under load, and every call is answered."""
    options = Options(age=SECOND // 5, age_grace=5 * SECOND)
    async with serving(METHODS, opener=opener, options=options) as address, channel(address) as made:

        async def ask(times):
            return [await call(made, ECHO, b"x") for _ in range(times)]

        async def ask_for(seconds):
            end = asyncio.get_running_loop().time() + seconds
            answers = []
            while asyncio.get_running_loop().time() < end:
                answers += await ask(5)
            return answers

        answers = await asyncio.gather(*(ask_for(1.5) for _ in range(4)))
        assert {answer for some in answers for answer in some} == {b"x"}


async def test_calls_in_flight_finish_when_the_server_stops(opener):
    """G-05: a call that takes a while is in flight at the stop; it gets its answer."""
    begun, release = asyncio.Event(), asyncio.Event()

    async def slow(data):
        begun.set()
        await release.wait()
        return data

    server = opener([Method(ECHO, unary=slow)], "127.0.0.1:0", Options())
    address = await server.start()
    async with channel(address) as made:
        waiting = asyncio.create_task(call(made, ECHO, b"last"))
        await begun.wait()
        stopping = asyncio.create_task(server.stop(5 * SECOND))
        await asyncio.sleep(0.1)
        assert not stopping.done()
        release.set()
        assert await waiting == b"last"
        await stopping


async def test_a_call_that_never_ends_does_not_outlive_the_grace(opener):
    begun = asyncio.Event()

    async def endless(_data):
        begun.set()
        await asyncio.Event().wait()

    server = opener([Method(ECHO, unary=endless)], "127.0.0.1:0", Options())
    address = await server.start()
    async with channel(address) as made:
        waiting = asyncio.create_task(call(made, ECHO, b""))
        await begun.wait()
        async with asyncio.timeout(5):
            await server.stop(SECOND // 5)
            with pytest.raises(grpc.aio.AioRpcError):
                await waiting


def health_status(data):
    return HealthCheckResponse.FromString(data).status


async def test_health_follows_the_state_and_turns_for_good_at_the_drain(opener):
    """G-05: NOT_SERVING at once and so it stays, in Check and in Watch; a Watch does not hold the stop up."""
    health = Health(["wardgate.test.Echo"])
    async with serving(health.methods(), opener=opener) as address, channel(address) as made:
        check = made.unary_unary("/grpc.health.v1.Health/Check")
        watch = made.unary_stream("/grpc.health.v1.Health/Watch")(b"")
        assert health_status(await check(b"")) == NOT_SERVING
        assert health_status(await watch.read()) == NOT_SERVING
        health.serve(["wardgate.test.Echo"])
        named = HealthCheckRequest(service="wardgate.test.Echo").SerializeToString()
        assert health_status(await check(named)) == SERVING
        assert health_status(await watch.read()) == SERVING
        health.drain()
        assert health_status(await watch.read()) == NOT_SERVING
        health.serve(["wardgate.test.Echo"])
        assert health_status(await check(b"")) == NOT_SERVING
        health.close()
        assert await watch.read() is grpc.aio.EOF
        assert await watch.code() is grpc.StatusCode.OK


async def test_health_of_a_service_that_is_not_ours_is_unknown(opener):
    other = HealthCheckRequest(service="other.Service").SerializeToString()
    async with serving(Health([]).methods(), opener=opener) as address, channel(address) as made:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(made, "/grpc.health.v1.Health/Check", other)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        watch = made.unary_stream("/grpc.health.v1.Health/Watch")(other)
        assert health_status(await watch.read()) == UNKNOWN
        watch.cancel()
        with pytest.raises(grpc.aio.AioRpcError) as malformed:
            await call(made, "/grpc.health.v1.Health/Check", b"\xff")
        assert malformed.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "address", ["", "unix:", "w.sock", "host:", ":80", "host:http", "host:70000", "unix:" + "x" * 108]
)
def test_an_address_of_no_known_form_is_refused(opener, address):
    with pytest.raises(AddressUnusable):
        socket_path(address)


def test_a_file_that_is_no_socket_is_left_alone(opener, tmp_path):
    path = tmp_path / "notes"
    path.write_text("mine")
    with pytest.raises(AddressUnusable, match="not a socket"):
        claim_socket(path)
    assert path.read_text() == "mine"
