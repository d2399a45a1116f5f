"""What an allowance removes, sets and adds."""

import json

import pytest

from authz.apikey import hash_key
from authz.keytable import index_keys
from model.snapshot import Kind, Requirement
from tests.authz.build import judge, plane, request, resident, route, snapshot


def granted(asked=None, *, removed=("x-authenticated-user",), **changes):
    return judge(asked, resident(snapshot(routes=(route(**changes),), remove_headers=removed)))


def test_credentials_are_removed_whichever_came():
    """The upstream never sees what was meant for the gateway (bug report H-08)."""
    assert {"authorization", "x-api-key", "dpop"} <= set(granted().remove_headers)


def test_route_can_keep_credentials():
    """Some upstreams read the token themselves."""
    assert granted(strip_credentials=False).remove_headers == ("x-authenticated-user",)


@pytest.mark.parametrize(
    ("path", "removed"),
    [
        ("/a?api_key=k.s&x=1", ("api_key",)),
        ("/a?x=1&%61pi_key=k.s", ("%61pi_key",)),
        ("/a?x=1", ()),
        ("/a", ()),
    ],
)
def test_credential_in_the_query_is_removed_by_the_name_that_it_came_under(path, removed):
    """Other parameters are left as they are."""
    line = {"id": "k", "sha256": hash_key("k.s"), "client_id": "client-1", "scopes": ["accounts"]}
    policy = snapshot(planes=(plane(credentials=(Kind.API_KEY,)),), routes=(route(stream=True),))
    house = resident(policy, api_keys=index_keys([json.dumps(line).encode()]))
    headers = {} if removed else {"x-api-key": "k.s"}

    assert judge(request(bearer=None, path=path, headers=headers), house).remove_query == removed


def test_identity_headers_go_before_anything_is_set():
    """A forged identity header never reaches the upstream; ours replaces what came under its name (H-09, H-11)."""
    verdict = granted(request(headers={"x-verified-caller-context": "forged"}))

    assert verdict.remove_headers[0] == "x-authenticated-user"
    assert dict(verdict.set_headers)["x-verified-caller-context"] != "forged"
    assert "x-verified-caller-context" not in verdict.remove_headers


def test_forged_context_is_removed_where_none_is_set():
    """A route without a context forwards nobody's."""
    assert "x-verified-caller-context" in granted(context=False).remove_headers


def test_context_listed_among_the_identity_headers_is_not_taken_away_again():
    """Envoy removes last: what is set must not be on the list (bug report H-11)."""
    verdict = granted(removed=("X-Verified-Caller-Context", "X-User-Roles"))

    assert "x-verified-caller-context" not in verdict.remove_headers
    assert "x-user-roles" in verdict.remove_headers


def test_family_of_identity_headers_is_removed_by_its_prefix():
    """`x-authenticated-*` names every header that begins so, as far as the request has them."""
    asked = request(headers={"x-authenticated-user": "a", "x-authenticated-by": "b", "x-other": "c"})

    removed = granted(asked, removed=("X-Authenticated-*",)).remove_headers

    assert {"x-authenticated-user", "x-authenticated-by"} <= set(removed)
    assert "x-other" not in removed


def test_request_id_is_left_alone():
    """It is Envoy's, and it ties the logs together."""
    verdict = granted(request(headers={"x-request-id": "req-1"}))

    assert "x-request-id" not in verdict.remove_headers
    assert "x-request-id" not in dict(verdict.set_headers)


def test_answer_carries_the_limits_that_were_met():
    """RateLimit and RateLimit-Policy, and X-RateLimit-Remaining where the document asks for it."""
    fields = dict(granted().answer_headers)

    assert fields["ratelimit-policy"] == '"requests";q=600;w=60'
    assert fields["ratelimit"] == '"requests";r=99;t=30'
    assert fields["x-ratelimit-remaining"] == "99"
    assert granted(answer_fields=()).answer_headers == ()


def test_anonymous_allowance_strips_like_any_other():
    """Public routes forward no credentials either."""
    house = resident(snapshot(planes=(plane(credentials=(Kind.NONE,)),), routes=(route(requirement=Requirement()),)))

    assert "authorization" in judge(request(bearer=None), house).remove_headers
