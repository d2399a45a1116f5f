"""The wealth example: prefixes, tiers and KYC levels, limits per user, clean answers, breakers, webhooks, streams."""

import itertools
import time
from contextlib import ExitStack

import pytest

from tests.e2e.stage import Stage, bearer

UPSTREAMS = ("IDENTITY", "MIA", "ADVISORY", "PORTFOLIO", "DISTRIBUTION", "MARKETS", "PAYMENTS", "ESTATE")
HARDENED = {
    "strict-transport-security": "max-age=63072000; includeSubDomains",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
USERS = itertools.count(1)
HOSTS = itertools.count(1)


@pytest.fixture(scope="module")
def stage():
    # the breaker, quicker: one test waits for it
    quick = ("volume: 10, interval: 10s, eject: 30s, longest: 30s", "volume: 10, interval: 1s, eject: 2s, longest: 2s")
    running = Stage("wealth", dict.fromkeys(UPSTREAMS, "SERVICES"), quick).start("APP_PORT")
    yield running
    running.stop()


def user(**claims):
    """A user that nobody has seen yet, from an address of their own."""
    claims = {"iss": "https://identity.byld.example", "aud": "https://api.byld.example", **claims}
    return bearer(**{"sub": f"user-{next(USERS)}", "client_id": "kmp-app", **claims}) | client()


def await_status(ask, status, *, meanwhile):
    """Ask until this is the answer, which is another one until then."""
    end = time.monotonic() + 15
    while (seen := ask()) != status:
        assert (seen, time.monotonic() < end) == (meanwhile, True)
        time.sleep(0.02)


def client(address=None):
    """What the CDN and the load balancer write of a client's address."""
    return {"x-forwarded-for": f"{address or f'192.0.2.{next(HOSTS)}'}, 10.0.0.1"}


def test_services_learn_from_plain_headers_who_asks_and_clients_cannot_write_them(stage):
    asking = user(sub="user-7", tier="plus", roles=["investor", "family"])
    forged = {"x-client-id": "admin", "x-roles": "admin", "x-tier": "private", "x-user-id": "user-1"}
    reply = stage.ask("/api/v1/portfolio/holdings", asking | forged)

    assert reply.status == 200
    told = {name: reply.echoed[name] for name in forged}
    assert told == {"x-client-id": "kmp-app", "x-user-id": "user-7", "x-tier": "plus", "x-roles": "family,investor"}
    assert "authorization" not in reply.echoed
    assert "x-verified-caller-context" in reply.echoed


def test_header_of_which_nothing_is_known_is_absent_even_if_a_client_sent_it(stage):
    reply = stage.ask("/api/v1/users/me", user() | {"x-roles": "admin", "X-Tier": "private"})

    assert "x-roles" not in reply.echoed
    assert reply.echoed["x-tier"] == "basic"


@pytest.mark.parametrize(
    ("path", "claims", "status", "problem"),
    [
        ("/api/v1/orders", {}, 403, "claim-refused"),
        ("/api/v1/orders", {"kyc": "basic"}, 403, "claim-refused"),
        ("/api/v1/orders", {"kyc": "full"}, 200, None),
        ("/api/v1/advisory/plan", {}, 403, "tier-refused"),
        ("/api/v1/advisory/plan", {"tier": "plus"}, 200, None),
        ("/api/v1/estate/wills", {"tier": "basic"}, 403, "tier-refused"),
        ("/api/v1/estate/wills", {"tier": "private"}, 200, None),
        ("/api/v1/markets/quotes", {}, 200, None),
    ],
)
def test_route_opens_for_its_tier_and_its_kyc_level(stage, path, claims, status, problem):
    reply = stage.ask(path, user(**claims))

    assert reply.status == status, reply.body
    if problem:
        assert reply.problem == problem


def test_nothing_but_the_public_prefix_opens_without_a_token(stage):
    assert stage.ask("/api/v1/auth/login", client(), "POST").status == 200
    for path in ("/api/v1/users/me", "/api/v1/payments", "/api/v1/authx", "/api/v1/notifications"):
        assert stage.ask(path, client()).status in (401, 404), path


def test_login_is_limited_by_address_and_a_user_by_their_own_limit(stage):
    """10 a minute with a burst of twice as many: twenty at once, and then one in six seconds."""
    visitor, other = client(), client()
    statuses = [stage.ask("/api/v1/auth/login", visitor, "POST").status for _ in range(21)]
    assert statuses == [200] * 20 + [429]
    refused = stage.ask("/api/v1/auth/login", visitor, "POST")
    assert 1 <= int(refused.headers["retry-after"]) <= 6
    assert refused.headers["x-ratelimit-remaining"] == "0"
    assert stage.ask("/api/v1/auth/login", other, "POST").status == 200

    first, second = user(), user()
    statuses = [stage.ask("/api/v1/payments", first, "POST").status for _ in range(41)]
    assert statuses == [200] * 40 + [429]
    assert stage.ask("/api/v1/payments", second, "POST").status == 200
    assert stage.ask("/api/v1/portfolio", first).status == 200


def test_every_answer_is_hardened_and_tells_nothing_of_the_inside(stage):
    """Whoever gave it: a service, the sidecar in refusing, Envoy where there is no route or no service."""
    replies = [
        stage.ask("/api/v1/portfolio", user()),
        stage.ask("/api/v1/portfolio", user() | {"x-answer": "500"}),
        stage.ask("/api/v1/portfolio", client()),
        stage.ask("/nowhere", client()),
    ]

    assert [reply.status for reply in replies] == [200, 500, 401, 404]
    for reply in replies:
        assert {name: reply.headers.get(name) for name in HARDENED} == HARDENED
        assert not {"x-powered-by", "x-internal-node"} & reply.headers.keys()
        assert reply.headers["server"] == "wardgate"
        assert reply.headers["x-request-id"]


def test_preflight_is_answered_for_the_app_and_for_nobody_else(stage):
    asking = {"access-control-request-method": "PATCH", "access-control-request-headers": "idempotency-key"}
    good = stage.ask("/api/v1/orders", asking | {"origin": "https://app.byld.example"}, "OPTIONS")
    bad = stage.ask("/api/v1/orders", asking | {"origin": "https://evil.example"}, "OPTIONS")

    assert good.headers["access-control-allow-origin"] == "https://app.byld.example"
    assert good.headers["access-control-max-age"] == "86400"
    assert "access-control-allow-origin" not in bad.headers


def test_webhook_is_known_by_its_address(stage):
    """What the client itself wrote into X-Forwarded-For stands further left and does not count."""
    inside, outside = client("203.0.113.5"), client("198.51.100.200")
    spoofed = {"x-forwarded-for": "203.0.113.5, 198.51.100.200, 10.0.0.1"}

    assert stage.ask("/webhooks/razorpay", inside, "POST").status == 200
    assert stage.ask("/webhooks/razorpay", outside, "POST").problem == "address-refused"
    assert stage.ask("/webhooks/razorpay", spoofed, "POST").status == 403
    assert stage.ask("/webhooks/willjini", inside, "POST").status == 403


def test_streams_are_counted_while_they_are_open(stage):
    """Five at once for a user; one that ends makes room for another, and another user has room of their own."""
    asking, path = user(), "/api/v1/markets/stream/quotes"
    with ExitStack() as opened:
        with stage.open(path, asking):
            for _ in range(4):
                assert opened.enter_context(stage.open(path, asking)).status == 200
            assert stage.ask(path, asking).status == 429
            assert opened.enter_context(stage.open(path, user())).status == 200
        await_status(lambda: opened.enter_context(stage.open(path, asking)).status, 200, meanwhile=429)
        assert stage.ask(path, asking).status == 429


def test_service_that_fails_is_left_alone_and_the_others_are_not(stage):
    """Half of at least ten calls within the interval: then 503 at once, unasked, until it has rested."""
    asking, path = user(), "/api/v1/portfolio/slow"
    await_status(lambda: stage.ask(path, asking | {"x-answer": "500"}).status, 503, meanwhile=500)
    asked = stage.services.asked[path]
    reply = stage.ask(path, asking)
    assert (reply.status, reply.headers["retry-after"]) == (503, "5")
    assert stage.services.asked[path] == asked
    assert stage.ask("/api/v1/markets/quotes", user()).status == 200
    await_status(lambda: stage.ask(path, asking).status, 200, meanwhile=503)
