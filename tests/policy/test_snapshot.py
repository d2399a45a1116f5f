"""The services' half of a document, and its way through JSON and back."""

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model import quota, snapshot
from model.instant import MINUTE
from policy.codec import SnapshotInvalid, dump_snapshot, load_snapshot
from policy.gateway import Context, Store
from policy.identity import Assertion, Consumer, Introspection, Issuer, Tier
from policy.plane import ClientCertificate, Plane
from policy.route import Requirement, Route
from policy.snapshot import compile_snapshot
from tests.policy.build import MINIMAL, PLACEHOLDER, load_example, load_text


def test_open_banking_compiles_to_the_policy_that_it_says():
    policy = compile_snapshot(load_example())

    route = policy.routes["payment-initiate"]
    assert (route.plane, route.upstream, route.audience) == ("partner", "payment-initiation", "payment-initiation")
    assert route.access is snapshot.Access.WRITE
    assert policy.routes["accounts-list"].access is snapshot.Access.READ
    assert route.requirement.scopes == ("payments",)
    assert route.requirement.psd2_roles == ("PSP_PI",)
    (limit,) = policy.tiers["partner"].limits
    assert limit.quota == quota.Quota("partner", 600, MINUTE, 100)
    assert limit.per == (snapshot.Dimension.CLIENT, snapshot.Dimension.ROUTE)
    assert policy.consumers["fintech-alpha"].organisations == ("PSDDE-BAFIN-100001",)
    assert policy.planes["partner"].certificate.anchors == (PLACEHOLDER.decode(),)
    assert policy.planes["public"].anonymous_tier == "anonymous"


def test_equal_policies_are_equal_versions(tmp_path):
    first = compile_snapshot(load_text(tmp_path, MINIMAL))
    again = compile_snapshot(load_text(tmp_path, f"# a remark\n{MINIMAL}"))
    other = compile_snapshot(load_text(tmp_path, MINIMAL.replace("60/min", "61/min")))

    assert first == again
    assert first.version != other.version


def test_override_stands_in_for_the_limit_of_its_name(tmp_path):
    text = MINIMAL + (
        "consumers:\n  shop:\n    tier: guests\n    overrides:\n"
        "      - {limit: guests, rate: 900/min, since: 2027-01-01, until: 2027-02-01T12:00:00+01:00}\n"
    )
    (override,) = compile_snapshot(load_text(tmp_path, text)).consumers["shop"].overrides

    assert (override.quota.name, override.quota.count) == ("guests", 900)
    assert override.since == 1_798_761_600 * 10**9
    assert override.until == 1_801_479_600 * 10**9


def test_snapshot_survives_its_way_through_json():
    policy = compile_snapshot(load_example())

    assert load_snapshot(dump_snapshot(policy)) == policy
    assert dump_snapshot(load_snapshot(dump_snapshot(policy))) == dump_snapshot(policy)


SCALARS = {str: st.text(max_size=12), int: st.integers(-(2**63), 2**63), bool: st.booleans()}
for kind, strategy in SCALARS.items():
    st.register_type_strategy(kind, strategy)


@given(st.from_type(snapshot.Snapshot))
@settings(max_examples=30, deadline=None)
def test_any_snapshot_survives_its_way_through_json(policy):
    assert load_snapshot(dump_snapshot(policy)) == policy


@pytest.mark.parametrize(
    "damage",
    [
        lambda tree: tree.pop("gateway"),
        lambda tree: tree.update(surprise=1),
        lambda tree: tree.update(version=5),
        lambda tree: tree["routes"]["home"].update(access="sometimes"),
        lambda tree: tree["routes"]["home"].update(tier_limits="yes"),
        lambda tree: tree["tiers"].update(guests=[]),
        lambda tree: tree.update(routes=[]),
    ],
)
def test_bytes_of_another_shape_are_refused(tmp_path, damage):
    tree = json.loads(dump_snapshot(compile_snapshot(load_text(tmp_path, MINIMAL))))
    damage(tree)

    with pytest.raises(SnapshotInvalid):
        load_snapshot(json.dumps(tree).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b"\xff", b'{"gateway":"a","gateway":"b"}', b"[" * 100_000])
def test_bytes_that_are_no_snapshot_are_refused(data):
    with pytest.raises(SnapshotInvalid):
        load_snapshot(data)


def test_every_field_of_the_snapshot_types_is_compiled_from_the_document():
    """What the model can say, the language must be able to say: a new field does not get lost on the way."""
    policy = compile_snapshot(load_example())

    assert {field.name for field in dataclasses.fields(snapshot.Snapshot)} == set(json.loads(dump_snapshot(policy)))


@pytest.mark.parametrize(
    ("shape", "record", "other"),
    [
        (Plane, snapshot.Plane, {"id", "certificate", "address_header"}),
        (ClientCertificate, snapshot.CertificateProfile, {"anchors"}),
        (Issuer, snapshot.Issuer, {"id"}),
        (Introspection, snapshot.Introspection, {"id"}),
        (Assertion, snapshot.Assertion, set()),
        (Consumer, snapshot.Consumer, {"client_id"}),
        (Tier, snapshot.Tier, {"id"}),
        (Requirement, snapshot.Requirement, set()),
        (Route, snapshot.Route, {"audience", "requirement", "response", "body"}),
        (Store, snapshot.Store, set()),
        (Context, snapshot.Context, set()),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_language_can_say_whatever_the_policy_can_hold(shape, record, other):
    """`other` are the fields that are written elsewhere or under another name."""
    assert {field.name for field in dataclasses.fields(record)} - other <= shape.model_fields.keys()


def test_relative_files_of_the_policy_become_absolute(tmp_path):
    text = MINIMAL.replace("credentials: [none]", "credentials: [none, opaque, jwt]") + (
        "store: {urls: [redis://cache:6379], password: file:redis.secret, hash_key: env:HASH_KEY}\n"
        "issuers: {idp: {issuer: a, jwks: file:keys.json, audiences: [a]}}\n"
        "introspections: {point: {endpoint: https://a, client_id: a, secret: file:secret}}\n"
    )
    policy = compile_snapshot(load_text(tmp_path, text))

    assert policy.store.password == f"file:{tmp_path}/redis.secret"
    assert policy.store.hash_key == "env:HASH_KEY"
    assert policy.issuers["idp"].jwks == f"file:{tmp_path}/keys.json"
    assert policy.introspections["point"].secret == f"file:{tmp_path}/secret"
