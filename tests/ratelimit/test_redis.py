"""What only a real Redis can show: Lua equals Python, what stands in the keys, and what a broken call leaves behind."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from model.instant import HOUR, SECOND
from model.snapshot import Store as Settings
from ratelimit.redis import RedisStore
from ratelimit.script import Naming
from ratelimit.store import StoreAway
from tests.ratelimit.build import START, bucket_of, charge_of, redis_store, window_of
from tests.ratelimit.servers import Server, free_port

pytestmark = pytest.mark.redis


@pytest.fixture
async def store(single):
    single.client().flushall()
    store = redis_store(single)
    await store.start()
    yield store
    await store.close()


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
