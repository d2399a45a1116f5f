"""Whose bucket a request counts in."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.dimension import name_bucket, name_shard, site_of
from authz.evidence import Credential
from model.snapshot import Consumer, Dimension, Kind
from model.verdict import Caller
from tests.authz.build import evidence, request, token

NAMES = st.text(alphabet="ab:|_ \n\0{}é/", max_size=6)


def facts_of(caller, *, consumer=None, serial="", address="192.0.2.7", bearer="tok"):
    facts = evidence(request(address=address))
    facts.caller = caller
    facts.consumer = consumer
    facts.serial = serial
    facts.credential = Credential(Kind.JWT, bearer)
    return facts


@pytest.mark.parametrize(
    ("address", "site"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("", ""),
        ("@/run/x.sock", "@/run/x.sock"),
        ("no:address", "no:address"),
    ],
)
def test_site_is_an_ipv4_address_or_a_whole_64(address, site):
    """Who holds a /64 holds 2**64 addresses, and gets one bucket."""
    assert site_of(address) == site


@given(st.lists(NAMES, min_size=2, max_size=2), st.lists(NAMES, min_size=2, max_size=2))
def test_different_callers_never_share_a_bucket(one, other):
    """Names may contain any separator; parts are never joined (bug report R-06)."""
    first, second = (facts_of(Caller(client_id="c" + each[0], tenant="t" + each[1])) for each in (one, other))
    per = (Dimension.TENANT, Dimension.CLIENT)

    assert (name_bucket(first, per) == name_bucket(second, per)) is (one == other)


def test_value_of_one_dimension_is_not_that_of_another():
    """A client called like an address has a bucket of its own."""
    client = facts_of(Caller(client_id="192.0.2.7"))
    stranger = facts_of(Caller())

    assert name_bucket(client, (Dimension.CLIENT,)) != name_bucket(stranger, (Dimension.CLIENT,))


@pytest.mark.parametrize("dimension", list(Dimension))
def test_no_dimension_is_ever_empty(dimension):
    """Who has no value for a dimension counts by the next best one: strangers never share one bucket by accident."""
    for caller in (Caller(), Caller(client_id="c"), Caller(subject="s")):
        parts = name_bucket(facts_of(caller, bearer=""), (dimension,))

        assert len(parts) > 1
        assert parts[-1]


def test_credential_never_stands_in_its_bucket():
    """The bucket's name goes to the store: a jti or a digest stands there, not the token (bug report R-07)."""
    text = token()

    for serial in ("", "t-1"):
        parts = name_bucket(facts_of(Caller(client_id="c"), serial=serial, bearer=text), (Dimension.CREDENTIAL,))
        assert text not in parts
        assert all(piece not in parts for piece in text.split("."))


@pytest.mark.parametrize(
    "per", [each for size in (1, 2, 3) for each in itertools.combinations(Dimension, size)], ids="-".join
)
def test_one_bucket_lives_on_one_shard(per):
    """The shard follows from the bucket: two requests with one bucket never disagree about where it is."""
    shards = {}
    registered = Consumer("c1", "partner", tenant="t1")
    for client, subject, tenant, organisation in itertools.product(
        ("c1", "c2", ""), ("s1", ""), ("t1", "t2", ""), ("o1", "")
    ):
        consumer = registered if client == "c1" else None
        caller = Caller("jwt", client, subject, "partner", "t1" if consumer else tenant, organisation)
        facts = facts_of(caller, consumer=consumer, serial="x")
        shards.setdefault(name_bucket(facts, per), set()).add(name_shard(facts, per))

    assert all(len(names) == 1 for names in shards.values())


def test_buckets_of_a_registered_consumer_and_its_tenant_lie_together():
    """All quotas of one partner are reached in one round trip."""
    facts = facts_of(Caller(client_id="c1", tenant="t1"), consumer=Consumer("c1", "partner", tenant="t1"))

    assert name_shard(facts, (Dimension.CLIENT, Dimension.ROUTE)) == name_shard(facts, (Dimension.TENANT,)) == "t1"
