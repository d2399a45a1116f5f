"""What a document can say about credentials, and the contradictions in it that are told."""

import pytest

from model.instant import MINUTE
from model.snapshot import Assertion, Kind
from policy.fault import Faults
from policy.snapshot import compile_snapshot
from tests.policy.build import load_text

DOCUMENT = """\
gateway: small
sidecar: {address: "unix:/tmp/small.sock"}
store: STORE
planes:
  partner: {listen: "127.0.0.1:8080", credentials: [KIND], MORE}
tiers: {partner: {}}
introspections:
  one: {endpoint: "https://one.example/i", client_id: gate, secret: "env:ONE"}
  two: {endpoint: "https://two.example/i", client_id: gate, secret: "file:/run/two"}
consumers:
  alpha: {tier: partner, assertion: {jwks: JWKS, scopes: [accounts], algorithms: [ALGORITHM]}}
upstreams:
  web: {endpoints: ["127.0.0.1:9000"]}
revocation: {REVOCATION}
routes:
  - {id: home, plane: partner, match: {path: /, methods: [GET]}, upstream: web, ROUTE}
"""
GOOD = {
    "STORE": "redis://127.0.0.1:6379",
    "KIND": "assertion",
    "MORE": "origin: https://api.example",
    "JWKS": "https://alpha.example/keys",
    "ALGORITHM": "ES256",
    "REVOCATION": "redis: store, files: [denied.jsonl], max_age: 5min",
    "ROUTE": "body: 1KiB",
}


def load(folder, **changes):
    text = DOCUMENT
    for name, value in {**GOOD, **changes}.items():
        text = text.replace(name, value)
    return load_text(folder, text)


def test_credentials_are_compiled_as_they_stand(tmp_path):
    """A partner's own keys, its endpoint, and where revocations come from."""
    policy = compile_snapshot(load(tmp_path, KIND="opaque", MORE="introspection: two"))

    assert policy.consumers["alpha"].assertion == Assertion("https://alpha.example/keys", ("ES256",), ("accounts",))
    assert policy.planes["partner"].introspection == "two"
    assert policy.revocation.feed == policy.store
    assert policy.revocation.files == (f"{tmp_path}/denied.jsonl",)
    assert policy.revocation.max_age == 5 * MINUTE


def test_feed_may_be_a_redis_of_its_own(tmp_path):
    """Limits may be counted in memory then."""
    policy = compile_snapshot(load(tmp_path, STORE="memory", REVOCATION="redis: 'unix:///run/feed.sock'"))

    assert policy.revocation.feed.urls == ("unix:///run/feed.sock",)


def test_webhook_needs_no_anonymous_tier_where_it_names_who_may_come(tmp_path):
    """The plane stays closed: its other routes take what the plane says."""
    policy = compile_snapshot(load(tmp_path, ROUTE="credentials: [none], require: {networks: [203.0.113.0/24]}"))

    assert policy.routes["home"].credentials == (Kind.NONE,)
    assert policy.planes["partner"].credentials == (Kind.ASSERTION,)


@pytest.mark.parametrize(
    ("changes", "where", "found"),
    [
        ({"MORE": "realm: r"}, "planes.partner.credentials", "assertion without an origin"),
        ({"KIND": "opaque"}, "planes.partner.credentials", "opaque with several introspection endpoints"),
        ({"MORE": "origin: o, introspection: three"}, "planes.partner.introspection", "unknown introspection endpoint"),
        ({"ALGORITHM": "HS256"}, "consumers.alpha.assertion.algorithms", "'HS256'"),
        ({"JWKS": "http://alpha.example/keys"}, "consumers.alpha.assertion.jwks", "http://alpha.example/keys"),
        ({"STORE": "memory"}, "revocation.redis", "store, which is no single Redis"),
        ({"REVOCATION": "redis: 'http://x'"}, "revocation.redis", "http://x"),
        ({"REVOCATION": "redis: 'redis://u:p@x'"}, "revocation.redis", "an address with a password"),
        ({"REVOCATION": "max_age: 5min"}, "revocation.max_age", "an age without a feed"),
        ({"ROUTE": "credentials: [none]"}, "routes[0].credentials", "none, which the plane does not accept"),
    ],
)
def test_contradiction_is_told_with_its_place(tmp_path, changes, where, found):
    """Each of them would refuse everybody, or let in who was not meant."""
    with pytest.raises(Faults) as raised:
        load(tmp_path, **changes)

    assert [(fault.where, found in fault.found) for fault in raised.value.faults] == [(where, True)]
