"""Routes held against each other, their planes and their upstreams."""

import re

from model.snapshot import Kind
from policy.finding import Finding, Findings, one_of
from policy.gateway import IDENTITY_PREFIXES, Document
from policy.overlap import MOST_NAMES, find_shadow, is_template
from policy.plane import Plane
from policy.route import Route
from policy.tree import Where

_UNREACHABLE = re.compile(r"//|/\.{1,2}(?:/|$)")
_HARMLESS = frozenset({"connect-failure", "refused-stream"})


def check_routes(document: Document, known: dict[str, frozenset[str]]) -> Findings:
    """Find routes that refer to nothing, that can never match, or that their plane or upstream cannot serve."""
    seen: dict[str, int] = {}
    for index, route in enumerate(document.routes):
        where: Where = ("routes", index)
        if route.id in seen:
            yield Finding(
                (*where, "id"), f"the id {route.id!r} again", f"each id once (first in routes[{seen[route.id]}])"
            )
        seen.setdefault(route.id, index)
        yield from _check_references(where, route, known)
        yield from _check_match(where, route, document)
        yield from _check_upstream(where, route, document)
        shadow = find_shadow(document.routes, index)
        if shadow is not None and shadow[0].id != route.id:
            found = f"a match of which the earlier route {shadow[0].id!r} takes {shadow[1]}"
            yield Finding((*where, "match"), found, "a match of its own, or a place before that route")
        yield from _check_openness(where, route, document)


def _check_references(where: Where, route: Route, known: dict[str, frozenset[str]]) -> Findings:
    if route.plane not in known["planes"]:
        yield Finding((*where, "plane"), f"the unknown plane {route.plane!r}", one_of([*known["planes"]]))
    if (route.upstream is None) == (not route.split):
        yield Finding(where, "both or neither of upstream and split", "exactly one of upstream and split")
    places = [((*where, "upstream"), route.upstream)] if route.upstream is not None else []
    places += [((*where, "split", name), name) for name in route.split]
    places += [((*where, "mirrors", index, "upstream"), item.upstream) for index, item in enumerate(route.mirrors)]
    for place, name in places:
        if name not in known["upstreams"]:
            yield Finding(place, f"the unknown upstream {name!r}", one_of([*known["upstreams"]]))
    if route.split and sum(route.split.values()) == 0:
        yield Finding((*where, "split"), "weights that add up to 0", "at least one weight above 0")
    for name in route.require.tiers:
        if name not in known["tiers"]:
            yield Finding((*where, "require", "tiers"), f"the unknown tier {name!r}", one_of([*known["tiers"]]))


def _check_match(where: Where, route: Route, document: Document) -> Findings:
    path = route.match.path
    if path is not None and _has_braces(path) and not is_template(path):
        expected = f"segments that are literal or one {{name}}, each name once, and at most {MOST_NAMES} of them"
        yield Finding((*where, "match", "path"), repr(path), expected)
    for key, place in (("path", path), ("prefix", route.match.prefix)):
        if place is not None and _UNREACHABLE.search(place):
            found = f"{place!r}, which no path is after Envoy has made it plain"
            yield Finding((*where, "match", key), found, "a path without empty segments, . and ..")
    if _has_braces(route.match.prefix or ""):
        yield Finding((*where, "match", "prefix"), repr(route.match.prefix), "literal segments; {name} is for path")
    if path is not None and "{" in path and route.rewrite is not None:
        found = f"{route.rewrite!r} in place of a path with {{name}}"
        yield Finding((*where, "rewrite"), found, "a prefix that it replaces, or a path without {name}")
    for name in route.match.headers:
        if name in document.hidden() or name.startswith(IDENTITY_PREFIXES):
            expected = "a header that clients may send: this one is removed before routes are matched"
            yield Finding((*where, "match", "headers", name), f"the identity header {name}", expected)


def _has_braces(path: str) -> bool:
    return "{" in path or "}" in path


def _check_upstream(where: Where, route: Route, document: Document) -> Findings:
    for name in route.targets:
        upstream = document.upstreams.get(name)
        if upstream is not None and route.transcode and (upstream.protocol != "grpc" or not upstream.services):
            found = f"transcode towards {name!r}, which is no gRPC upstream with descriptors and services"
            expected = "an upstream with protocol grpc, descriptors and services"
            yield Finding((*where, "transcode"), found, expected, counterpart=("upstreams", name))
    if route.websocket and not route.stream:
        yield Finding((*where, "websocket"), "a WebSocket with the limits of a request", "stream: true beside it")
    if route.websocket and not {"GET"} <= set(route.match.methods or ("GET",)):
        yield Finding((*where, "websocket"), f"a WebSocket by {', '.join(route.match.methods)}", "methods with GET")
    retry = route.retry
    if retry is not None and not route.match.safe and not retry.idempotent and not set(retry.on) <= _HARMLESS:
        found = f"retries on {', '.join(retry.on)} of a request that may have been carried out"
        expected = "connect-failure or refused-stream only, or idempotent: true where a repetition does no harm"
        yield Finding((*where, "retry", "on"), found, expected)
    plane = document.planes.get(route.plane)
    if plane is None:
        return
    yield from _check_kinds(where, route, plane)
    profile = plane.client_certificate.profile if plane.client_certificate is not None else "mtls"
    if route.require.psd2_roles and profile == "mtls":
        below = ("planes", route.plane, "client_certificate")
        found = f"PSD2 roles on the plane {route.plane!r}, whose clients show no PSD2 certificate"
        expected = "a plane with the profile qwac-psd2 or obwac"
        yield Finding((*where, "require", "psd2_roles"), found, expected, counterpart=below)


def _check_kinds(where: Where, route: Route, plane: Plane) -> Findings:
    """Find credentials that the plane does not accept. `none` is one of them unless the route names who may come."""
    if route.application and Kind.API_KEY in (route.credentials or plane.credentials):
        found = "an application beside api-key, of which it is one"
        yield Finding((*where, "application"), found, "credentials of users, or none")
    for kind in route.credentials:
        if kind in plane.credentials or (kind is Kind.NONE and route.require.networks):
            continue
        expected = one_of([kind.value for kind in plane.credentials])
        if kind is Kind.NONE:
            expected += "; or require.networks beside it, for callers that are known by their address"
        yield Finding((*where, "credentials"), f"{kind.value}, which the plane does not accept", expected)
        return


def _check_openness(where: Where, route: Route, document: Document) -> Findings:
    """Warn of a catch-all that asks for less than its neighbours: a misspelled path falls through to it."""
    if route.match.prefix != "/" or route.match.headers or route.require.model_dump(exclude_defaults=True):
        return
    guarded = [
        other.id
        for other in document.routes
        if other.plane == route.plane and other.require.model_dump(exclude_defaults=True)
    ]
    if guarded:
        found = f"a catch-all that requires nothing beside {guarded[0]!r}, which does"
        yield Finding((*where, "match", "prefix"), found, "a prefix of its own", warning=True)
