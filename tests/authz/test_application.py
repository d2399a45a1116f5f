"""An application named by its key, beside a user who may have a credential of their own."""

import json

import pytest

from authz.apikey import hash_key
from authz.denylist import Denylist, Entry, Subject
from authz.keytable import index_keys
from model.reason import Reason
from model.snapshot import Kind, Requirement
from model.verdict import Allow, Deny
from tests.authz.build import (
    CountingLimiter,
    consumer,
    issuer,
    judge,
    plane,
    request,
    resident,
    route,
    snapshot,
    tiers,
    token,
)

BOTH = (Kind.NONE, Kind.JWT)
IN_QUERY = Reason.CREDENTIAL_KIND_REFUSED


def line(key, client, **members):
    record = {"id": key.split(".")[0], "sha256": hash_key(key), "client_id": client, **members}
    return json.dumps(record).encode()


KEYS = index_keys(
    [
        line("app1.a", "shop", scopes=["accounts"], roles=["anon"], tenant="shop-tenant"),
        line("app2.b", "bank"),
        line("root.c", "shop", privileged=True, roles=["service_role"]),
        line("lost.d", "nobody"),
    ]
)


def house(live=None, **changes):
    """Two applications in two tiers; users are of an issuer whose clients are registered nowhere."""
    policy = snapshot(
        planes=(plane(credentials=BOTH, application=True, anonymous_tier=""),),
        routes=(route(**{"requirement": Requirement(), **changes}),),
        consumers=(consumer(client_id="shop", tier="internal", tenant=""), consumer(client_id="bank", tenant="bank-1")),
        issuer=issuer(tier="anonymous"),
        tiers=tiers(),
    )
    return resident(policy, api_keys=KEYS, **(live or {}))


def asked(key="app1.a", user=None, where="x-api-key", **changes):
    headers = {where: key} if key else {}
    return judge(request(bearer=user, headers=headers), changes.pop("at", None) or house(**changes))


def refusal(verdict):
    assert isinstance(verdict, Deny)
    return verdict.reason


@pytest.mark.parametrize("where", ["x-api-key", "apikey"])
def test_application_without_a_user_has_what_its_key_says(where):
    verdict = asked(where=where)

    caller = verdict.caller
    assert (caller.kind, caller.client_id, caller.tier, caller.tenant, caller.subject) == (
        "api-key",
        "shop",
        "internal",
        "shop-tenant",
        "",
    )


def test_user_brings_subject_and_scopes_and_the_application_stays_in_front():
    """What the token says of a client, a tier or a tenant counts for nothing here."""
    verdict = asked("app2.b", token(sub="user-9", client_id="someone", scope="accounts"))

    caller = verdict.caller
    assert (caller.kind, caller.client_id, caller.tier, caller.tenant, caller.subject) == (
        "jwt",
        "bank",
        "partner",
        "bank-1",
        "user-9",
    )


def test_scopes_are_those_of_the_user_where_there_is_one_and_of_the_key_where_there_is_none():
    needed = {"requirement": Requirement(scopes=("accounts",))}

    assert isinstance(asked(**needed), Allow)
    assert refusal(asked(user=token(scope="other"), **needed)) is Reason.SCOPE_MISSING
    assert isinstance(asked("app2.b", token(scope="accounts"), **needed), Allow)
    assert refusal(asked("app2.b", **needed)) is Reason.SCOPE_MISSING


@pytest.mark.parametrize(
    ("key", "user", "reason"),
    [
        ("", None, Reason.CREDENTIAL_MISSING),
        ("", token(), Reason.CREDENTIAL_MISSING),
        ("app1.x", None, Reason.API_KEY_UNKNOWN),
        ("app1.x", token(), Reason.API_KEY_UNKNOWN),
        ("lost.d", token(), Reason.CLIENT_UNKNOWN),
        ("app1.a,app2.b", None, Reason.CREDENTIALS_AMBIGUOUS),
        ("app1.a", "not.a.token", Reason.TOKEN_MALFORMED),
        ("app1.a", token(exp=1), Reason.TOKEN_EXPIRED),
    ],
)
def test_neither_of_the_two_stands_in_for_the_other(key, user, reason):
    """A user's token names no application, and a bad token is no absent one."""
    assert refusal(asked(key, user)) is reason


def test_two_keys_are_refused_wherever_they_stand():
    for headers, path in (
        ({"x-api-key": "app1.a", "apikey": "app1.a"}, "/v1"),
        ({"apikey": "app1.a"}, "/v1?apikey=app1.a"),
        ({}, "/v1?apikey=app1.a&api_key=app1.a"),
        ({"apikey": "app1.a"}, "/v1?access_token=x"),
    ):
        verdict = judge(request(bearer=None, headers=headers, path=path), house(stream=True))
        assert refusal(verdict) is Reason.CREDENTIALS_AMBIGUOUS


@pytest.mark.parametrize(
    ("stream", "key", "reason"),
    [
        (True, "app1.a", None),
        (False, "app1.a", Reason.CREDENTIAL_KIND_REFUSED),
        (True, "root.c", Reason.CREDENTIAL_KIND_REFUSED),
    ],
)
def test_key_in_the_query_is_for_streams_and_never_a_privileged_one(stream, key, reason):
    verdict = judge(request(bearer=None, path=f"/v1/live?apikey={key}"), house(stream=stream))

    if reason is None:
        assert verdict.remove_query == ("apikey",)
    else:
        assert refusal(verdict) is reason


def test_privileged_key_in_a_header_brings_its_role():
    assert isinstance(asked("root.c", requirement=Requirement(roles=("service_role",))), Allow)
    assert refusal(asked(requirement=Requirement(roles=("service_role",)))) is Reason.ROLE_MISSING


@pytest.mark.parametrize(
    "entry",
    [
        Entry(Subject.API_KEY, "app1"),
        Entry(Subject.CLIENT, "shop"),
        Entry(Subject.SUBJECT, "user-9", "https://id.example"),
        Entry(Subject.CLIENT, "client-1"),
        Entry(Subject.API_KEY, "app1", before=1),
        Entry(Subject.CLIENT, "shop", before=1),
    ],
)
def test_revoked_key_client_or_user_is_refused(entry):
    denied = Denylist()
    denied.add(entry)
    at = house(live={"denylist": denied})

    assert isinstance(asked("app2.b", token(sub="user-8", client_id="client-2"), at=at), Allow)
    assert refusal(asked("app1.a", token(sub="user-9"), at=at)) is Reason.CREDENTIAL_REVOKED


def test_key_that_names_an_application_is_a_bearer_secret():
    """It never meets a route that demands bound credentials."""
    assert refusal(asked(requirement=Requirement(bound=True))) is Reason.TOKEN_UNBOUND


def test_context_of_one_application_is_not_that_of_another():
    """Contexts are shared within a second: by the same user of the same application only."""
    at, user = house(), token(sub="user-9")
    contexts = {key: dict(asked(key, user, at=at).set_headers) for key in ("app1.a", "app2.b")}

    assert contexts["app1.a"] != contexts["app2.b"]
    assert dict(asked("app1.a", user, at=at).set_headers) == contexts["app1.a"]


def test_limits_count_the_application_whoever_its_user_is():
    limiter = CountingLimiter()
    at = house()
    for user in (token(sub="a"), token(sub="b"), None):
        judge(request(bearer=user, headers={"apikey": "app1.a"}), at, limiter)

    keys = [charge.key for spend in limiter.spends for charge in spend]
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_route_can_ask_for_no_application():
    verdict = judge(request(bearer=None), house(application=False, credentials=(Kind.NONE,), limits=()))

    assert isinstance(verdict, Allow)
    assert verdict.caller.client_id == ""


def test_upstream_sees_neither_credential():
    assert {"authorization", "x-api-key", "apikey"} <= set(asked(user=token()).remove_headers)
