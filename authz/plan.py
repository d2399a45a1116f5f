"""A route as a decision reads it: everything about it that can be worked out before a request comes, worked out."""

import ipaddress
from dataclasses import dataclass

from model.snapshot import Context, Dimension, Kind, Limit, Plane, Route, Snapshot, Tier

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

KEY_HEADERS = ("x-api-key", "apikey")
KEY_QUERY = ("api_key", "apikey")
"""Where an API key can stand; both names of each are in wide use."""
CREDENTIAL_HEADERS = ("authorization", *KEY_HEADERS, "dpop")
"""The header fields in which a credential, or the proof of one, can arrive."""

CREDENTIAL_QUERY = ("access_token", *KEY_QUERY)
"""The query parameters in which clients put credentials (RFC 6750 section 2.3); see `credential.py` for who may."""


@dataclass(frozen=True, slots=True)
class Metered:
    """A limit and the owner of its buckets, the head of their keys: ("tier", id), ("route",) or ("plane", id)."""

    owner: tuple[str, ...]
    limit: Limit


@dataclass(frozen=True, slots=True)
class Plan:
    """A route, its plane, and what follows from the two.

    `kinds` are the credentials accepted here. `remove` are the header names to remove and `remove_prefixes` those
    known by their beginning ("x-authenticated-"). `metered` holds, for each tier id ("" for none), the limits that its
    members meet on this route. `flood` is the limit per source address of the plane. `application` asks for an API key
    beside the user's credential.
    """

    route: Route
    plane: Plane
    kinds: frozenset[Kind]
    scopes: frozenset[str]
    roles: frozenset[str]
    psd2_roles: frozenset[str]
    tiers: frozenset[str]
    networks: tuple[Network, ...]
    remove: tuple[str, ...]
    remove_prefixes: tuple[str, ...]
    metered: dict[str, tuple[Metered, ...]]
    flood: Metered | None
    application: bool = False


NOWHERE = Plan(
    route=Route("", plane="", upstream="", audience="", context=False),
    plane=Plane("", credentials=()),
    kinds=frozenset(),
    scopes=frozenset(),
    roles=frozenset(),
    psd2_roles=frozenset(),
    tiers=frozenset(),
    networks=(),
    remove=(),
    remove_prefixes=(),
    metered={"": ()},
    flood=None,
)
"""The plan of a request that no route fits: it accepts nothing, and `find_route` refuses it."""


def draw_plans(snapshot: Snapshot) -> dict[str, Plan]:
    """Work out the plan of every route. Raises KeyError or ValueError for a snapshot that contradicts itself."""
    _require_tiers(snapshot)
    return {id_: draw_plan(snapshot, route) for id_, route in snapshot.routes.items()}


def draw_plan(snapshot: Snapshot, route: Route) -> Plan:
    """Work out one plan. Raises KeyError for an unknown plane, ValueError for an address range that is none."""
    plane = snapshot.planes[route.plane]
    requirement = route.requirement
    remove, prefixes = _removals(route, snapshot.remove_headers, snapshot.context)
    return Plan(
        route=route,
        plane=plane,
        kinds=frozenset(route.credentials or plane.credentials),
        scopes=frozenset(requirement.scopes),
        roles=frozenset(requirement.roles),
        psd2_roles=frozenset(requirement.psd2_roles),
        tiers=frozenset(requirement.tiers),
        networks=tuple(ipaddress.ip_network(text) for text in requirement.networks),
        remove=remove,
        remove_prefixes=prefixes,
        metered=_metered(route, snapshot.tiers),
        flood=_flood(plane),
        application=plane.application if route.application is None else route.application,
    )


def _require_tiers(snapshot: Snapshot) -> None:
    """Raise KeyError for a tier that somebody is in and that there is not: better now than at somebody's request."""
    named = {consumer.tier: f"consumer {consumer.client_id}" for consumer in snapshot.consumers.values()}
    named |= {issuer.tier: f"issuer {issuer.id}" for issuer in snapshot.issuers.values() if issuer.tier is not None}
    for tier, holder in named.items():
        if tier not in snapshot.tiers:
            raise KeyError(f"{holder} is in the tier {tier!r}, which does not exist")


def _removals(route: Route, identity: tuple[str, ...], context: Context) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split what is to be removed into names and prefixes; identity headers first, then credentials.

    The headers of the context are never among the names where they are set: Envoy applies removals last, and would
    take away what was just added (bug report H-11). Setting them overwrites whatever came.
    """
    names = [name.lower() for name in identity if not name.endswith("*")]
    ours = (context.header, *(name for name, _ in context.plain))
    names += ours
    if route.strip_credentials:
        names += CREDENTIAL_HEADERS
    kept = [name for name in dict.fromkeys(names) if not (route.context and name in ours)]
    prefixes = tuple(name[:-1].lower() for name in identity if name.endswith("*"))
    return tuple(kept), prefixes


def _metered(route: Route, tiers: dict[str, Tier]) -> dict[str, tuple[Metered, ...]]:
    own = tuple(Metered(("route",), limit) for limit in route.limits)
    met = {"": own}
    for tier in tiers.values():
        of_tier = tuple(Metered(("tier", tier.id), limit) for limit in tier.limits) if route.tier_limits else ()
        met[tier.id] = of_tier + own
    return met


def _flood(plane: Plane) -> Metered | None:
    """Count by address whatever the limit says: it is met before anybody is known."""
    if plane.flood is None:
        return None
    return Metered(("plane", plane.id), Limit(plane.flood.quota, (Dimension.ADDRESS,), plane.flood.cost))
