"""The caller context that the upstream receives."""

import base64
import json

from hypothesis import given
from hypothesis import strategies as st

from authz.context import fit_members
from authz.resident import FixedKeys
from model.instant import SECOND
from model.snapshot import Context, Requirement
from tests.authz import tokens
from tests.authz.build import (
    NOW,
    ORGANISATION,
    certificate,
    judge,
    request,
    resident,
    ring,
    route,
    snapshot,
    token,
)


def minted(asked=None, house=None):
    return dict(judge(asked, house).set_headers)["x-verified-caller-context"]


def members(text):
    payload = text.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


def test_context_says_who_calls_where_and_for_how_long():
    """Every member of the contract, and nothing that has no value."""
    peer = certificate()

    assert members(minted(request(certificate=peer))) == {
        "iss": "wardgate",
        "aud": "account-ledger",
        "iat": NOW // SECOND,
        "exp": NOW // SECOND + 30,
        "route": "accounts",
        "kind": "jwt",
        "client_id": "client-1",
        "tier": "partner",
        "sub": "user-1",
        "tenant": "bank-1",
        "scopes": ["accounts", "payments"],
        "psd2_roles": ["PSP_AI"],
        "organisation": ORGANISATION,
        "request_id": "req-1",
    }


def test_context_is_minted_once_for_a_token_a_route_and_a_second():
    """The second request of the same second is given the same context; the next second has its own."""
    house, bearer = resident(), token()
    first = minted(request(bearer=bearer), house)

    assert minted(request(bearer=bearer, id="req-2"), house) is first
    assert minted(request(bearer=bearer, received=NOW + SECOND - 1), house) is first
    assert members(minted(request(bearer=bearer, received=NOW + SECOND), house))["iat"] == NOW // SECOND + 1


def test_context_is_never_shared_between_callers_routes_or_certificates():
    """What is cached is found by everything that it says."""
    house = resident(snapshot(routes=(route(), route(id="payments", audience="payment-initiation"))))
    asked = [
        request(),
        request(bearer=token(sub="user-2")),
        request(route="payments"),
        request(certificate=certificate()),
    ]
    seen = [members(minted(each, house)) for each in asked]

    assert [each.get("sub") for each in seen] == ["user-1", "user-2", "user-1", "user-1"]
    assert [each["aud"] for each in seen][2] == "payment-initiation"
    assert [each.get("organisation") for each in seen] == [None, None, None, ORGANISATION]


def test_context_per_request_is_bound_to_it():
    """Method and the digest of path and query; two requests never share one."""
    house = resident(snapshot(routes=(route(context_per_request=True),)))
    first = members(minted(request(path="/v1/accounts?a=1"), house))
    second = members(minted(request(path="/v1/accounts?a=2", id="req-2"), house))

    assert first["method"] == "GET"
    assert first["path_sha256"] != second["path_sha256"]
    assert (first["request_id"], second["request_id"]) == ("req-1", "req-2")


def test_rotation_signs_with_the_new_key():
    """A ring that was swapped signs from the next second on, whatever is cached."""
    house = resident()
    minted(house=house)
    house.live.ring = type(ring()).create(NOW)

    later = minted(request(received=NOW + SECOND), house)

    header = json.loads(base64.urlsafe_b64decode(later.split(".")[0] + "=="))
    assert header["kid"] == house.live.ring.jwks()["keys"][0]["kid"]


def open_house():
    trusted = tokens.issuer(tier="partner")
    routes = (route(requirement=Requirement()),)
    return resident(snapshot(issuer=trusted, routes=routes), keys=FixedKeys(tokens.trust(tier="partner")))


def test_long_lists_become_digests_and_the_rest_stays():
    """500 scopes do not break the upstream's header limit (bug report H-17)."""
    text = minted(request(bearer=token(scope=" ".join(f"scope-{n}" for n in range(500)))), open_house())

    said = members(text)
    assert len(text) <= 4096
    assert "scopes" not in said
    assert len(said["scopes_sha256"]) == 43
    assert said["client_id"] == "client-1"


def test_only_what_is_too_long_is_shortened():
    """The longest list goes first; a short one stays readable."""
    bearer = token(scope=" ".join(f"scope-{n}" for n in range(500)), roles=["auditor"])

    assert members(minted(request(bearer=bearer), open_house()))["roles"] == ["auditor"]


def test_long_names_become_digests_last():
    """A client id of 3 KB is still one id, and still fits."""
    text = minted(request(bearer=token(client_id="c" * 3000, sub="s" * 3000)), open_house())

    assert len(text) <= 4096
    assert members(text)["client_id"].startswith("sha256:")


TEXT = st.text(max_size=3000)
LISTS = st.lists(st.text(max_size=300), max_size=60)


@given(st.fixed_dictionaries({"client_id": TEXT, "sub": TEXT, "tenant": TEXT, "scopes": LISTS, "roles": LISTS}))
def test_context_fits_whatever_a_token_says(said):
    """At most 4 KiB, always a JSON object, always ASCII."""
    key = ring().signer(NOW)
    text = key.sign(fit_members({"iss": "wardgate", **said}, key, Context("wardgate")))

    assert len(text) <= 4096
    assert members(text)["iss"] == "wardgate"
    assert text.isascii()


def test_route_can_do_without_a_context():
    """An upstream that is not ours learns nothing about callers."""
    house = resident(snapshot(routes=(route(context=False),)))

    assert judge(house=house).set_headers == ()
