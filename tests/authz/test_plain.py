"""Plain headers for upstreams that read no signed context: said exactly, or not at all, and never by a client."""

import pytest

from model.snapshot import Context
from tests.authz.build import judge, request, resident, route, snapshot, token

PLAIN = (("x-client-id", "client_id"), ("x-user", "sub"), ("x-roles", "roles"), ("x-org", "tenant"))


def granted(asked=None, plain=PLAIN, **changes):
    policy = snapshot(routes=(route(**changes),), context=Context("https://gateway.example", plain=plain))
    return judge(asked, resident(policy))


def said(verdict):
    return {name: value for name, value in verdict.set_headers if name in dict(PLAIN)}


def test_each_header_says_one_member():
    verdict = granted(request(bearer=token(roles=["b", "a"], sub="user-7")))

    assert said(verdict) == {"x-client-id": "client-1", "x-user": "user-7", "x-roles": "a,b", "x-org": "bank-1"}
    assert verdict.set_headers[0][0] == "x-verified-caller-context"


def test_header_with_nothing_to_say_is_removed_and_one_that_is_set_is_not():
    """Envoy applies removals last, so that a name in both is a header lost; a forged one must go nevertheless."""
    verdict = granted(request(headers={"x-roles": "forged", "x-client-id": "forged"}))

    assert "x-roles" in verdict.remove_headers
    assert not {name for name, _ in verdict.set_headers} & set(verdict.remove_headers)


def test_route_without_a_context_says_nothing_and_passes_nothing_on():
    verdict = granted(context=False)

    assert verdict.set_headers == ()
    assert set(dict(PLAIN)) <= set(verdict.remove_headers)


def test_header_that_is_an_identity_header_as_well_is_not_taken_away_again():
    policy = snapshot(routes=(route(),), context=Context("i", plain=PLAIN), remove_headers=("x-client-id", "x-other"))
    verdict = judge(None, resident(policy))

    assert said(verdict)["x-client-id"] == "client-1"
    assert "x-client-id" not in verdict.remove_headers
    assert "x-other" in verdict.remove_headers


@pytest.mark.parametrize(
    ("roles", "written"),
    [
        (["a,admin"], "a%2Cadmin"),
        (["a", "b c"], "a,b%20c"),
        (["100%"], "100%25"),
        (["Zoë"], "Zo%C3%AB"),
    ],
)
def test_element_cannot_pass_for_two_or_for_another_header(roles, written):
    assert said(granted(request(bearer=token(roles=roles))))["x-roles"] == written


def test_list_that_is_too_long_is_left_out_whole():
    """Half a list of roles is another list."""
    verdict = granted(request(bearer=token(roles=[f"role-{number}" for number in range(600)])))

    assert "x-roles" not in said(verdict)
    assert "x-roles" in verdict.remove_headers
