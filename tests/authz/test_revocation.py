"""Whether anything about a credential has been revoked."""

import json

import pytest

from authz.apikey import hash_key
from authz.certificate import judge_certificate, open_trust, read_peer
from authz.denylist import Denylist, Entry, Subject
from authz.keytable import index_keys
from model.instant import SECOND
from model.reason import Reason
from model.snapshot import Kind
from model.verdict import Allow
from tests.authz.build import (
    NAME,
    NOW,
    ORGANISATION,
    certificate,
    judge,
    pki,
    plane,
    request,
    resident,
    root,
    snapshot,
    token,
)


def house_with(*entries, policy=None, **changes):
    listed = Denylist()
    for entry in entries:
        listed.add(entry)
    return resident(policy, denylist=listed, **changes)


@pytest.mark.parametrize(
    "entry",
    [
        Entry(Subject.TOKEN, "t-1", NAME),
        Entry(Subject.SUBJECT, "user-1", NAME),
        Entry(Subject.KEY, "ed", NAME),
        Entry(Subject.CLIENT, "client-1"),
    ],
    ids=lambda entry: entry.subject.value,
)
def test_each_fact_of_a_token_can_be_revoked(entry):
    """Token, subject, signing key and client."""
    assert judge(house=house_with(entry)).reason is Reason.CREDENTIAL_REVOKED


@pytest.mark.parametrize(
    "entry",
    [
        Entry(Subject.TOKEN, "t-1", "https://other.example"),
        Entry(Subject.SUBJECT, "user-2", NAME),
        Entry(Subject.CLIENT, "client-12"),
        Entry(Subject.CLIENT, "client-1", before=NOW - 60 * SECOND),
        Entry(Subject.CLIENT, "client-1", expires=NOW - 1),
    ],
    ids=lambda entry: f"{entry.subject.value}-{entry.name}",
)
def test_entry_for_somebody_else_or_another_time_revokes_nothing(entry):
    """Another issuer's token, another client, what was issued later, what has been forgotten."""
    assert isinstance(judge(house=house_with(entry)), Allow)


def test_remembered_token_is_revoked_at_once():
    """The cache of verified tokens is no way round the denylist."""
    house, bearer = house_with(), token()
    assert isinstance(judge(request(bearer=bearer), house), Allow)

    house.live.denylist.add(Entry(Subject.TOKEN, "t-1", NAME))

    assert judge(request(bearer=bearer), house).reason is Reason.CREDENTIAL_REVOKED


def test_certificate_and_organisation_can_be_revoked():
    """Each with the reason that Berlin Group has for it."""
    peer = certificate()
    identity = judge_certificate(read_peer(peer), open_trust(pki.profile_of(root())), NOW)
    by_serial = Entry(Subject.CERTIFICATE, identity.serial, identity.issuer)

    assert judge(request(certificate=peer), house_with(by_serial)).reason is Reason.CERTIFICATE_REVOKED
    blocked = house_with(Entry(Subject.ORGANISATION, ORGANISATION))
    assert judge(request(certificate=peer), blocked).reason is Reason.CERTIFICATE_BLOCKED


def test_api_key_can_be_revoked_by_its_id():
    """The id is public, so the entry holds no secret."""
    line = {"id": "k1", "sha256": hash_key("k1.s"), "client_id": "client-1", "scopes": ["accounts"]}
    table = index_keys([json.dumps(line).encode()])
    policy = snapshot(planes=(plane(credentials=(Kind.API_KEY,)),))
    house = house_with(Entry(Subject.API_KEY, "k1"), policy=policy, api_keys=table)

    assert judge(request(bearer=None, headers={"x-api-key": "k1.s"}), house).reason is Reason.CREDENTIAL_REVOKED
