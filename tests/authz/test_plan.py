"""What is worked out of a route before a request comes."""

from model.snapshot import Dimension, Kind, Limit
from tests.authz.build import CLIENT_LIMIT, QUOTA, plane, resident, route, snapshot


def plan(**changes):
    planes = changes.pop("planes", (plane(),))
    return resident(snapshot(planes=planes, routes=(route(**changes),))).plans["accounts"]


def test_route_accepts_its_own_credentials_else_those_of_its_plane():
    """The more particular one decides."""
    assert plan().kinds == {Kind.JWT}
    assert plan(credentials=(Kind.API_KEY,)).kinds == {Kind.API_KEY}


def test_each_tier_meets_its_own_limits_and_those_of_the_route():
    """Tier limits first; who has no tier meets the route's only."""
    own = Limit(QUOTA, (Dimension.ROUTE,))
    met = plan(limits=(own,)).metered

    assert [one.limit for one in met["partner"]] == [CLIENT_LIMIT, own]
    assert [one.limit for one in met[""]] == [own]
    assert [one.owner for one in met["partner"]] == [("tier", "partner"), ("route",)]


def test_flood_limit_counts_by_address_whatever_it_says():
    """Nobody is known yet when it is met."""
    flooded = plane(flood=Limit(QUOTA, (Dimension.CLIENT,), 3))

    assert plan().flood is None
    assert plan(planes=(flooded,)).flood.limit == Limit(QUOTA, (Dimension.ADDRESS,), 3)


def test_removals_are_lower_case_and_named_once():
    """Header names have no case in HTTP/2."""
    house = resident(snapshot(remove_headers=("X-User", "x-user", "Authorization", "X-Auth-*")))

    assert house.plans["accounts"].remove == ("x-user", "authorization", "x-api-key", "apikey", "dpop")
    assert house.plans["accounts"].remove_prefixes == ("x-auth-",)
