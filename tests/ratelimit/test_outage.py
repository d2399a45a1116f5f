"""A Redis that answers with errors, or not at all, is an outage that heals by itself and is paid for once."""

import asyncio

import pytest
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, RedisError, ResponseError
from redis.retry import Retry

from model.instant import HOUR, MILLISECOND, SECOND
from model.snapshot import Store as Settings
from ratelimit.redis import RedisStore
from ratelimit.store import StoreAway
from tests.ratelimit.build import bucket_of, charge_of, redis_store
from tests.ratelimit.servers import Server, until

pytestmark = pytest.mark.redis


def fill(client):
    client.config_set("maxmemory", 1)


def break_auth(client):
    client.config_set("requirepass", "changed")
    client.client_kill_filter(_type="normal", skipme=True)


def demote(client):
    client.replicaof("127.0.0.1", "1")


def spin(client):
    """A script that never ends: others are answered BUSY after 5 ms, until it is killed."""
    client.config_set("busy-reply-threshold", 5)
    client.connection_pool.connection_kwargs["socket_timeout"] = 0.05
    try:
        client.eval("while true do end", 0)
    except Exception:  # noqa: BLE001 - the script has no answer
        client.close()


FAULTS = {
    "OOM": (fill, lambda client: client.config_set("maxmemory", 0)),
    "NOAUTH": (break_auth, lambda client: client.config_set("requirepass", "")),
    "READONLY": (demote, lambda client: client.replicaof("NO", "ONE")),
    "BUSY": (spin, lambda client: client.script_kill()),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_error_reply_is_an_outage_that_heals_by_itself(single, fault):
    """D-10: on a healthy connection, OOM and its like open the breaker; nobody restarts anything."""
    store = redis_store(single, budget=200 * MILLISECOND)
    await store.start()
    charge = charge_of(bucket_of(1000, HOUR))
    client = single.client()
    cause, cure = FAULTS[fault]
    cause(client)
    with pytest.raises(StoreAway):
        await hammered(store, charge)
    mode = store.mode
    cure(single.client(password="changed") if fault == "NOAUTH" else single.client())
    await asyncio.wait_for(answered(store, charge), 10)
    await store.close()

    assert mode == "share"


async def hammered(store, charge):
    for _ in range(50):
        await store.spend([charge], 0)
        await asyncio.sleep(0.01)


async def answered(store, charge):
    while True:
        try:
            return await store.spend([charge], 0)
        except StoreAway:
            await asyncio.sleep(0.01)


async def test_a_server_that_cannot_save_is_an_outage_that_heals_by_itself(tmp_path):
    """MISCONF: reads would be answered, and no spend is one."""
    server = Server(tmp_path, "--save", "3600 1").start()
    store = redis_store(server, budget=200 * MILLISECOND)
    await store.start()
    charge, client = charge_of(bucket_of(1000, HOUR)), server.client()
    (tmp_path / "dump.rdb").mkdir()
    client.bgsave()
    until(lambda: saving(client) == "err")
    with pytest.raises(ResponseError, match="MISCONF"):
        client.set("x", 1)
    with pytest.raises(StoreAway):
        await hammered(store, charge)
    mode = store.mode
    (tmp_path / "dump.rdb").rmdir()
    client.bgsave()
    until(lambda: saving(client) == "ok")
    await asyncio.wait_for(answered(store, charge), 10)
    await store.close()
    server.stop()

    assert mode == "share"


async def test_a_server_that_is_loading_is_an_outage_that_heals_by_itself(tmp_path):
    """LOADING: it takes connections, and answers every command with an error until its data are there."""
    slow = ("--key-load-delay", "5000", "--loading-process-events-interval-bytes", "1024")
    server = Server(tmp_path, *slow).start()
    store = redis_store(server, budget=200 * MILLISECOND)
    await store.start()
    charge, client = charge_of(bucket_of(1000, HOUR)), server.client()
    client.mset({f"filler{number}": f"{number}" * 600 for number in range(300)})
    client.save()
    server.kill()
    server.start(wait=False)
    await asyncio.to_thread(until, lambda: replies_loading(server))
    with pytest.raises(StoreAway):
        await store.spend([charge], 0)
    mode = store.mode
    await asyncio.wait_for(answered(store, charge), 20)
    await store.close()
    server.stop()

    assert mode == "share"


def replies_loading(server):
    try:
        server.client(retry=Retry(NoBackoff(), 0)).ping()
    except BusyLoadingError:
        return True
    except RedisError:
        return False
    raise AssertionError("it was loaded before it was looked at")


def saving(client):
    return client.info("persistence")["rdb_last_bgsave_status"]


async def test_a_black_hole_is_paid_for_once(tmp_path):
    """D-04: the first calls wait for their budget, then nobody waits; one probe at a time, no pile of connections."""
    server = Server(tmp_path).start()
    store = redis_store(server, budget=5 * MILLISECOND)
    await store.start()
    charge = charge_of(bucket_of(1000, HOUR))
    loop = asyncio.get_running_loop()
    server.pause()
    began = loop.time()
    first = await asyncio.gather(*(store.spend([charge], 0) for _ in range(50)), return_exceptions=True)
    waited = loop.time() - began
    began = loop.time()
    for _ in range(200):
        with pytest.raises(StoreAway):
            await store.spend([charge], 0)
    later = loop.time() - began
    await asyncio.sleep(0.3)
    server.resume()
    await asyncio.wait_for(answered(store, charge), 5)
    clients = server.client().info("clients")["connected_clients"]
    await store.close()
    server.stop()

    assert all(isinstance(answer, StoreAway) for answer in first)
    assert waited < 0.5
    assert later < 0.2
    assert clients <= 4


async def test_sentinels_new_master_is_found_without_a_restart(sentinel):
    """READONLY and refused connections after a failover heal."""
    store = RedisStore(Settings("redis", "sentinel", sentinel.urls, service="limits", budget=SECOND))
    await store.start()
    charge = charge_of(bucket_of(1000, HOUR))
    await store.spend([charge], 0)
    before = sentinel.sentinels[0].client().sentinel_master("limits")["port"]
    until(lambda: sentinel.sentinels[0].client().execute_command("SENTINEL FAILOVER", "limits"), 10)
    until(lambda: sentinel.sentinels[0].client().sentinel_master("limits")["port"] != before, 10)
    await asyncio.wait_for(answered(store, charge), 10)
    await store.close()
