"""Answers of an introspection endpoint: active is true, inactive a verdict, all else the fault of the endpoint."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.introspection import AnswerInvalid, read_answer
from authz.token import Claims
from model.instant import SECOND
from model.reason import Reason
from model.snapshot import Introspection
from model.verdict import Deny

NOW = 1_800_000_000 * SECOND
SETTINGS = Introspection("opaque", "https://idp.example/introspect", "wardgate", "SECRET", ("api",))


def read(settings=SETTINGS, **members):
    document = {"active": True, "client_id": "alpha", "scope": "accounts:read", "aud": "api"} | members
    return read_answer(json.dumps(document).encode(), settings, NOW)


def test_active_token_has_claims():
    """What the endpoint says is read as a token's claims are."""
    claims = read(exp=NOW // SECOND + 5, cnf={"x5t#S256": "A" * 43}, sub="user")

    assert isinstance(claims, Claims)
    assert (claims.client_id, claims.scopes, claims.subject) == ("alpha", frozenset({"accounts:read"}), "user")
    assert claims.expires == NOW + 5 * SECOND
    assert claims.confirmation == {"x5t#S256": "A" * 43}


def test_token_without_end_ends_when_the_cache_can_no_longer_serve_it():
    """Without `exp` nothing is believed for longer than the document says, the endpoint being away included."""
    assert read().expires == NOW + SETTINGS.cache + SETTINGS.max_stale


@pytest.mark.parametrize("active", ["true", 1, None, "yes", [True], {}])
def test_active_must_be_the_json_literal(active):
    """Pitfall 52: what is not plainly true or false is no answer."""
    with pytest.raises(AnswerInvalid):
        read(active=active)


def test_inactive_token_is_a_verdict():
    """RFC 7662 section 2.2: an inactive token needs no other member."""
    assert read(active=False).reason is Reason.TOKEN_INACTIVE


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"exp": NOW // SECOND - 60}, Reason.TOKEN_EXPIRED),
        ({"nbf": NOW // SECOND + 60}, Reason.TOKEN_NOT_YET_VALID),
        ({"aud": "other"}, Reason.TOKEN_AUDIENCE),
        ({"aud": None}, Reason.TOKEN_AUDIENCE),
        ({"exp": "soon"}, Reason.TOKEN_CLAIM_MALFORMED),
        ({"scope": 5}, Reason.TOKEN_CLAIM_MALFORMED),
        ({"cnf": {"jwk": {}}}, Reason.BINDING_UNSUPPORTED),
    ],
)
def test_claims_of_an_active_token_are_judged_too(members, reason):
    """An endpoint that calls a token active does not make it one for us, now."""
    assert read(**members).reason is reason


@pytest.mark.parametrize(
    "described", [{"token_use": "refresh_token"}, {"token_use": "id"}, {"typ": "Refresh"}, {"typ": "Offline"}]
)
def test_active_refresh_token_is_no_access_token(described):
    """Endpoints answer for every token that they issued, and some say which kind it is (Ory Hydra, Keycloak)."""
    assert read(**described).reason is Reason.TOKEN_TYPE


@pytest.mark.parametrize("described", [{"token_use": "access_token"}, {"typ": "Bearer"}, {"token_type": "Bearer"}])
def test_token_that_calls_itself_an_access_token_has_claims(described):
    """The same endpoints, about what is meant for here."""
    assert isinstance(read(**described), Claims)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"active":true,"active":false}', b"[" * 100_000])
def test_answer_that_is_no_object_is_the_endpoints_fault(body):
    """Never an exception of another kind, never a verdict about the token."""
    with pytest.raises(AnswerInvalid):
        read_answer(body, SETTINGS, NOW)


@given(st.dictionaries(st.sampled_from(["exp", "nbf", "iat", "aud", "scope", "sub", "client_id", "cnf"]), st.text()))
def test_no_member_raises(members):
    """Whatever the endpoint writes into an active answer, it is claims or a refusal."""
    assert isinstance(read(**members), Claims | Deny)
