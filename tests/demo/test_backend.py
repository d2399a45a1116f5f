"""The demo's backends refuse what carries no context, misbehave as asked, and write one event per call."""

import grpc
import pytest

from demo.backend import LEDGER, MISBEHAVIOUR, PAYMENTS, Backend, Catalogue, read_metadata, start_backend
from demo.pki import ensure_pki
from demo.settings import read_settings
from tests.demo.build import free_port, until

CATALOGUE = Catalogue(read_settings({}).descriptors)


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "pki"
    ensure_pki(folder)
    return folder


def known(metadata):
    good = metadata.get("x-verified-caller-context") == "good"
    return {"client_id": "alpha", "tier": "partner"} if good else None


@pytest.fixture
async def ledger(pki):
    """A ledger backend: its events, and a function that calls a method of it."""
    events, port = [], free_port()
    server = await start_backend(Backend("ledger", CATALOGUE, known, events.append), f"127.0.0.1:{port}", pki)
    try:
        async with grpc.aio.secure_channel(f"127.0.0.1:{port}", mesh(pki, "gateway"), NAMED) as channel:
            yield events, channel, port
    finally:
        await server.stop(None)


NAMED = [("grpc.ssl_target_name_override", "account-ledger")]


def mesh(pki, name):
    key, chain = (pki / f"{name}.key").read_bytes(), (pki / f"{name}.pem").read_bytes()
    return grpc.ssl_channel_credentials((pki / "mesh-ca.pem").read_bytes(), key, chain)


def get_account(channel, account, context="good", timeout=5):
    call = channel.unary_unary(f"/{LEDGER}.AccountLedger/GetAccount")
    request = CATALOGUE.make(f"{LEDGER}.GetAccountRequest", account_id=account)
    metadata = (("x-verified-caller-context", context), ("x-extra", "1"))
    return call(request.SerializeToString(), metadata=metadata, timeout=timeout)


def account_of(data):
    message = CATALOGUE.make(f"{LEDGER}.Account")
    message.ParseFromString(data)
    return message


async def status_of(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code()


async def test_a_call_with_a_valid_context_is_answered_and_leaves_one_event(ledger):
    events, channel, _ = ledger
    assert account_of(await get_account(channel, "current")).account_id == "current"
    (event,) = events
    assert tuple(event[k] for k in ("event", "id", "context", "client_id")) == ("call", "current", "verified", "alpha")


async def test_a_call_without_a_valid_context_is_refused(ledger):
    events, channel, _ = ledger
    assert await status_of(get_account(channel, "current", "forged")) == grpc.StatusCode.PERMISSION_DENIED
    assert events[0]["context"] == "refused"


@pytest.mark.parametrize(
    ("name", "code"), [(name, how) for name, how in MISBEHAVIOUR.items() if isinstance(how, grpc.StatusCode)]
)
async def test_identifiers_misbehave_as_their_name_says(ledger, name, code):
    _, channel, _ = ledger
    assert code == await status_of(get_account(channel, f"{name}~unique"))


async def test_a_hanging_call_sees_its_cancellation(ledger):
    events, channel, _ = ledger
    call = get_account(channel, "hang", timeout=None)
    await until(lambda: len(events) == 1)
    call.cancel()
    await until(lambda: len(events) == 2)
    assert [event["event"] for event in events] == ["call", "cancelled"]


async def test_the_account_echo_shows_the_metadata_that_arrived(ledger):
    _, channel, _ = ledger
    assert account_of(await get_account(channel, "echo")).metadata["x-extra"] == "1"


async def test_a_certificate_of_another_authority_gets_no_handshake(ledger, pki):
    events, _, port = ledger
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", mesh(pki, "fintech-alpha"), NAMED) as stranger:
        assert await status_of(get_account(stranger, "current")) == grpc.StatusCode.UNAVAILABLE
    assert events == []


def test_every_unary_method_of_the_descriptors_has_an_answer():
    from demo.backend import ANSWERS, BACKENDS

    methods = {m.full_name for names in BACKENDS.values() for name in names for m in CATALOGUE.methods(name)}
    assert set(ANSWERS) | {f"{LEDGER}.AccountLedger.WatchTransactions"} == methods
    assert any(name.startswith(PAYMENTS) for name in methods)


def test_repeated_metadata_is_joined():
    assert read_metadata([("a", "1"), ("a", "2"), ("b-bin", b"x")]) == {"a": "1,2", "b-bin": "x"}
