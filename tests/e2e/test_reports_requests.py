"""Requests that stand for two things at once, or for nothing, are refused whole (H-06, H-15, H-16, J-20, C-10)."""

import pytest

from demo.cases import ALPHA
from demo.row import Expect, complaints, describe
from demo.settings import EDGE_NAME
from demo.world import Ask, Token

ACCOUNT = "/v3/accounts/current"


def ask(*headers, token=ALPHA):
    return Ask("GET", ACCOUNT, token, headers=headers)


@pytest.mark.parametrize("second", [EDGE_NAME, "elsewhere.example"])
async def test_two_hosts_are_no_host(world, second):
    """H-06: neither the first nor the last of them wins (RFC 9112 section 3.2)."""
    reply = await world.ask(ask(("Host", EDGE_NAME), ("Host", second)))
    assert complaints(reply, Expect(400, "request-malformed")) == []


@pytest.mark.parametrize("host", ["", " ", "a,b", "user@host", "a b", "[::1", "host:port"])
async def test_a_host_that_is_none_is_a_bad_request(world, host):
    reply = await world.ask(ask(("Host", host)))
    assert complaints(reply, Expect(400, "request-malformed")) == []


@pytest.mark.parametrize("host", [EDGE_NAME, f"{EDGE_NAME}:443", EDGE_NAME.upper(), f"{EDGE_NAME}.", "[::1]:8443"])
async def test_one_host_is_taken_in_every_spelling(world, host):
    """H-16: case, default port and the dot of the root do not change who is meant."""
    reply = await world.ask(ask(("Host", host)))
    assert reply.status == 200, describe(reply)


@pytest.mark.parametrize(
    "values",
    [("Bearer {t}", "Bearer {t}"), ("Bearer {t}", "Bearer x"), ("Bearer x", "Bearer {t}"), ("Bearer {t}, Bearer {t}",)],
    ids=["same twice", "good first", "good last", "joined by the client"],
)
async def test_two_tokens_are_never_resolved_into_one(world, values):
    """H-06: through Envoy, whether repeated or joined."""
    token = await world.token(ALPHA)
    reply = await world.ask(ask(*(("Authorization", value.format(t=token)) for value in values), token=None))
    assert reply.status in {400, 401}, describe(reply)
    assert complaints(reply, Expect(reply.status)) == []


@pytest.mark.parametrize("name", ["authorization", "x-verified-caller-context", "x-request-id"])
async def test_no_header_is_hidden_by_naming_it_hop_by_hop(world, name):
    """What `Connection` names is gone before anything reads it, so it can take away a credential and nothing else."""
    reply = await world.ask(ask(("Connection", name)))
    assert reply.status == (401 if name == "authorization" else 200), describe(reply)


@pytest.mark.parametrize("value", ['a"b\\c', "x" * 5000, "\xff\xfe", "<script>", "${jndi:x}", "a\tb"])
async def test_a_request_id_of_the_client_harms_no_document(world, value):
    """P-08: whatever it holds, the refusal is one well-formed document with an id."""
    reply = await world.ask(ask(("X-Request-Id", value), token=None))
    assert complaints(reply, Expect(401, "credential-missing")) == []


@pytest.mark.parametrize(
    "path",
    [
        "/v3/accounts/",
        "/v3//accounts",
        "/v3/accounts%20",
        "/V3/accounts",
        "/v3/accounts/current/",
        "/v3/accounts/current%09",
        "/v3/accounts;x",
        "/v3/accounts/?x",
        "/v3/accounts/.",
        "/v3/accounts/current/transactions/",
    ],
)
@pytest.mark.parametrize("token", [None, Token("fintech-alpha", "payments")], ids=["no token", "another scope"])
async def test_a_changed_spelling_of_a_guarded_path_opens_nothing(world, path, token):
    """H-05: it is the guarded route, or no route at all."""
    reply = await world.ask(Ask("GET", path, token))
    assert reply.status in {400, 401, 403, 404}, describe(reply)
    assert complaints(reply, Expect(reply.status)) == []


async def test_nothing_of_all_this_broke_anything(demo, world):
    """No traceback in any log, and the sidecar still answers."""
    assert (await world.ask(ask())).status == 200
    assert not [name for name in ("sidecar", "ledger", "envoy") if "Traceback" in demo.log(name)]
    assert '"event":"exception"' not in demo.log("sidecar")
