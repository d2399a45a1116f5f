"""What only a real Redis can show: Lua equals Python, what stands in the keys, and what a broken call leaves behind."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model.instant import DAY, HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND
from model.quota import Quota
from model.snapshot import Store as Settings
from ratelimit import bucket, window
from ratelimit.redis import RedisStore
from ratelimit.script import SOURCE, Naming
from ratelimit.store import Draw, StoreAway
from tests.ratelimit.build import START, bucket_of, charge_of, window_of
from tests.ratelimit.servers import Server, free_port, until

pytestmark = pytest.mark.redis


def redis_store(server, **options):
    return RedisStore(Settings("redis", "single", (server.url,), **({"budget": SECOND} | options)))


@pytest.fixture
async def store(single):
    single.client().flushall()
    store = redis_store(single)
    await store.start()
    yield store
    await store.close()


def run(client, verb, fields, now):
    """One call of the script itself, in microseconds; in one transaction, so that nothing expires by Redis's clock."""
    with client.pipeline() as transaction:
        reply, _ = transaction.eval(SOURCE, 1, "k", str(now), f"{verb} 1", fields).persist("k").execute()
    return [int(number) for number in reply.split()][1:]


periods = st.sampled_from([SECOND, MINUTE, HOUR, DAY, 30 * DAY]).map(lambda period: period // MICROSECOND)
buckets = st.builds(Quota, st.just("q"), st.integers(0, 2**33), periods, st.integers(1, 2**34))
windows = st.builds(window_of, st.integers(0, 2**33), periods)
moves = st.lists(
    st.tuples(
        st.one_of(st.integers(-(10**6), 10**6), st.integers(0, 10**11)),
        st.one_of(st.integers(0, 5), st.integers(0, 2**34)),
        st.booleans(),
    ),
    min_size=1,
    max_size=25,
)


@pytest.mark.parametrize(("kind", "room"), [("b", bucket), ("w", window)])
@given(data=st.data(), steps=moves)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lua_equals_python_on_any_sequence(single, kind, room, data, steps):
    """Clocks that go back, changed quotas and products beyond 2^53 included."""
    client = single.client()
    client.delete("k")
    quotas = data.draw(st.lists(buckets if kind == "b" else windows, min_size=2, max_size=2))
    state, now = None, START // MICROSECOND
    for pause, cost, other in steps:
        quota, now = quotas[other], now + pause
        state, outcome = room.spend(state, quota, cost, now)
        answer = run(client, "spend", f"{kind} {quota.count} {quota.period} {quota.burst} {cost} 1", now)
        expected = [outcome.allowed, outcome.remaining, outcome.retry_after, outcome.reset]
        assert answer == [min(number, 2**52) for number in expected]


@given(
    bucket_of_many=buckets.filter(lambda quota: quota.count),
    steps=st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 50), st.integers(-9, 50), st.integers(0, 90))),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_draws_in_lua_equal_draws_in_python(single, bucket_of_many, steps):
    client = single.client()
    client.delete("k")
    quota, state, now = bucket_of_many, None, START // MICROSECOND
    for pause, owed, want, deficit in steps:
        now += pause
        wish = Draw(charge_of(quota), owed, want, deficit)
        since = now - 1 if owed % 2 else 2**52
        state, granted, left = bucket.draw(state, quota, wish, since, now)
        fields = f"b {quota.count} {quota.period} {quota.burst} {owed} {want} {deficit} {since}"
        expected = [granted, left, min(bucket.until(state, quota, quota.burst, now), 2**52)]
        assert run(client, "draw", fields, now) == expected


async def test_time_is_the_servers_own_whatever_the_caller_says(store):
    """R-10: a gateway with a slow or a fast clock refills nothing."""
    charge = charge_of(bucket_of(4, HOUR))
    spends = [await store.spend([charge], now) for now in (START, 0, 2**62, START, START - HOUR, 2**62)]

    assert [outcome.allowed for (outcome,) in spends] == [True] * 4 + [False] * 2


async def test_no_credential_stands_in_redis_in_clear(single, store):
    """R-07: neither in a key nor in a value."""
    await store.spend([charge_of(bucket_of(9), "credential", "Bearer s3cr3t", principal="s3cr3t")], 0)
    await store.spend([charge_of(window_of(9), "s3cr3t", principal="s3cr3t")], 0)
    client = single.client()
    stored = [part for key in client.scan_iter() for part in (key, client.dump(key))]

    assert len(stored) >= 4
    assert not any(b"s3cr3t" in part for part in stored)


def test_keys_of_fleets_with_different_secrets_have_nothing_in_common():
    charge = charge_of(bucket_of(1))
    one, other = Naming("wardgate", "one").name(charge), Naming("wardgate", "other").name(charge)

    assert one.split("{")[1] != other.split("{")[1]


def test_the_keys_of_one_principal_share_a_hash_tag():
    naming = Naming("wardgate")
    names = {naming.name(charge_of(quota, key)) for quota in (bucket_of(1), window_of(1)) for key in ("a}", "{b")}

    assert len(names) == 4
    assert len({name[name.index("{") : name.index("}")] for name in names}) == 1


async def test_every_counter_has_an_expiry_from_its_first_write(single, store):
    """D-08: state and expiry are one command; no cut connection can part them."""
    for number in range(50):
        charges = [charge_of(bucket_of(9), f"{number}"), charge_of(window_of(9), f"{number}")]
        cut = asyncio.create_task(store.spend(charges, 0))
        await asyncio.sleep(0)
        if number % 2:
            cut.cancel()
        if number % 10 == 0:
            single.client().client_kill_filter(_type="normal", skipme=True)
        await asyncio.gather(cut, return_exceptions=True)
    client = single.client()

    assert [key for key in client.scan_iter() if client.ttl(key) == -1] == []


async def test_a_lost_script_cache_fails_nobody(single, store):
    """D-02."""
    charge = charge_of(bucket_of(100, HOUR))
    for number in range(10):
        single.client().script_flush()
        (outcome,) = await store.spend([charge], 0)
        assert (outcome.allowed, outcome.remaining) == (True, 99 - number)


async def test_spends_of_one_moment_share_a_round_trip(store):
    before = store.calls
    charges = [charge_of(bucket_of(1000, HOUR), f"{number}") for number in range(100)]
    await asyncio.gather(*(store.spend([charge], 0) for charge in charges))

    assert store.calls - before <= 2


async def test_a_cancelled_call_never_hands_its_answer_to_another(store):
    """Each caller's quota has a count of its own, by which its answer is known."""

    async def ask(number):
        (outcome,) = await store.spend([charge_of(bucket_of(number, HOUR, name=f"q{number}"), f"{number}")], 0)
        return number, outcome.remaining

    for turn in range(30):
        tasks = [asyncio.create_task(ask(1000 * turn + number + 2)) for number in range(12)]
        await asyncio.sleep(0 if turn % 3 else 0.0005)
        for task in tasks[:: 1 + turn % 4]:
            task.cancel()
        for answer in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(answer, BaseException):
                assert answer[1] == answer[0] - 1


async def test_databases_of_one_server_stay_apart(single):
    """D-12: counters in db 3 survive a flush of db 0, and never appear there."""
    single.client().flushall()
    store = RedisStore(Settings("redis", "single", (f"{single.url}/3",), budget=SECOND))
    await store.start()
    charge = charge_of(bucket_of(1, HOUR))
    await store.spend([charge], 0)
    single.client().flushdb()
    (outcome,) = await store.spend([charge], 0)
    await store.close()

    assert not outcome.allowed
    assert single.client(db=0).dbsize() == 0
    assert single.client(db=3).dbsize() > 0


async def test_a_unix_socket_and_an_acl_user_are_enough(single):
    client = single.client()
    client.acl_setuser(
        "limiter", enabled=True, passwords=["+pass"], keys=["wardgate:*"], commands=["+@all", "-@dangerous"]
    )
    url = f"unix://{single.folder / 's'}"
    store = RedisStore(Settings("redis", "single", (url,), username="limiter", password="pass", budget=SECOND))
    await store.start()
    (outcome,) = await store.spend([charge_of(bucket_of(5, HOUR))], 0)
    await store.close()
    client.acl_deluser("limiter")

    assert outcome.allowed


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A CA, and a certificate for 127.0.0.1 that serves both ends: paths of (ca, certificate, key)."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "limits")])
    now = datetime.now(UTC)
    address = x509.IPAddress(__import__("ipaddress").ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pkcs8 = serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, plain))
    return str(folder / "cert.pem"), str(folder / "cert.pem"), str(folder / "key.pem")


async def test_tls_with_a_client_certificate(tmp_path, certificates, single):
    ca, certificate, key = certificates
    port = free_port()
    tls = ("--tls-port", str(port), "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", ca)
    server = Server(tmp_path, *tls).start()
    url = f"rediss://127.0.0.1:{port}"
    with_certificate = Settings("redis", "single", (url,), ca=ca, certificate=certificate, key=key, budget=SECOND)
    without = Settings("redis", "single", (url,), ca=ca, budget=SECOND)
    allowed = []
    for options in (with_certificate, without):
        store = RedisStore(options)
        await store.start(0.3)
        try:
            allowed += [(await store.spend([charge_of(bucket_of(5))], 0))[0].allowed]
        except StoreAway:
            allowed += ["away"]
        await store.close()
    server.stop()

    assert allowed == [True, "away"]


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
