"""Route configurations: one per plane, each route labelled with its wardgate id."""

import itertools
import re
from collections.abc import Iterator

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.route import v3 as config
from envoy_data_plane.envoy.extensions.path.match.uri_template import v3 as template
from envoy_data_plane.envoy.type import v3 as envoy_type
from envoy_data_plane.envoy.type.matcher import v3 as matcher

from model.instant import MILLISECOND
from policy.filters import AUTHORITY, CORS, cors_policy, known_origins, label, route_filters
from policy.gateway import Document
from policy.overlap import number_names
from policy.plane import Cors, Plane
from policy.route import Match, Mirror, Retry, Route
from policy.typed import exact, extension, header, pack, regex, span

# Envoy's timers read the kernel's coarse clock, which lags by up to one tick: 4 ms as Debian builds it, 10 at most.
_TICK = 10 * MILLISECOND
WEBSOCKET = "websocket"
_INTERNAL_HEADERS = [
    "x-envoy-internal",
    "x-envoy-external-address",
    "x-envoy-expected-rq-timeout-ms",
    "x-envoy-attempt-count",
]


def route_configuration(name: str, plane: Plane, document: Document) -> config.RouteConfiguration:
    """Write the routes of a plane, in the order of the document, each with its preflight, then a 405 for every path."""
    routes = [route for route in document.routes if route.plane == name]
    host = config.VirtualHost(
        name=name,
        domains=list(plane.hosts),
        routes=[
            *itertools.chain.from_iterable(_with_preflight(route, plane, document) for route in routes),
            *map(_wrong_method, _same_place(routes)),
        ],
        include_request_attempt_count=False,
        typed_per_filter_config={CORS: pack(cors_policy(plane.cors))} if plane.cors is not None else {},
    )
    return config.RouteConfiguration(
        name=name,
        virtual_hosts=[host],
        validate_clusters=False,
        # Not the transcoder's copies of method and path: an upstream holds them against a context that is bound to its
        # request. A credential in the query has left the path before the copy is made.
        request_headers_to_remove=_INTERNAL_HEADERS,
        # What a route says wins over its host, so that nothing said once can undo what was said closer.
        most_specific_header_mutations_wins=True,
    )


def _with_preflight(route: Route, plane: Plane, document: Document) -> Iterator[config.Route]:
    """Write a route, and behind it the preflights of its methods: a later route must not take them away."""
    yield _route(route, document)
    policy = route.cors or plane.cors
    if policy is not None and route.match.methods and "OPTIONS" not in route.match.methods:
        yield _preflight(route, policy, document)


def _route(route: Route, document: Document) -> config.Route:
    return config.Route(
        name=route.id,
        match=_match(route.match, route.match.methods),
        route=_action(route, document),
        typed_per_filter_config=route_filters(route, document),
    )


def _match(match: Match, methods: tuple[str, ...]) -> config.RouteMatch:
    headers = [config.HeaderMatcher(name=name, string_match=exact(value)) for name, value in match.headers.items()]
    if methods:
        headers.append(config.HeaderMatcher(name=":method", string_match=_any_of(methods)))
    if match.hosts:
        hosts = exact(match.hosts[0], ignore_case=True) if len(match.hosts) == 1 else _any_host(match.hosts)
        headers.append(config.HeaderMatcher(name=":authority", string_match=hosts))
    built = config.RouteMatch(headers=headers)
    if match.prefix is not None:
        _set_prefix(built, match.prefix)
    elif "{" in (match.path or ""):
        policy = template.UriTemplateMatchConfig(path_template=number_names(match.path or ""))
        built.path_match_policy = extension("envoy.path.match.uri_template.uri_template_matcher", policy)
    else:
        built.path = match.path or ""
    return built


def _any_of(methods: tuple[str, ...]) -> matcher.StringMatcher:
    return exact(methods[0]) if len(methods) == 1 else regex("|".join(methods))


def _set_prefix(built: config.RouteMatch, prefix: str) -> None:
    """Match whole segments: /api/admin is no prefix of /api/administrator."""
    if prefix == "/":
        built.prefix = "/"
    else:
        built.path_separated_prefix = prefix.rstrip("/")


def _any_host(hosts: tuple[str, ...]) -> matcher.StringMatcher:
    return regex("(?i)(?:" + "|".join(map(re.escape, hosts)) + ")")


def _action(route: Route, document: Document) -> config.RouteAction:
    upstream = document.upstreams[route.targets[0]]
    timeout = upstream.timeout if route.timeout is None else route.timeout
    action = config.RouteAction(
        timeout=span(_whole(timeout)),
        cluster_not_found_response_code=config.RouteActionClusterNotFoundResponseCode.SERVICE_UNAVAILABLE,
        retry_policy=_retry(route),
        request_mirror_policies=list(map(_mirror, route.mirrors)),
    )
    if route.idle_timeout is not None:
        action.idle_timeout = span(route.idle_timeout)
    if upstream.protocol == "grpc" and not route.transcode:
        # A gRPC caller's own deadline may shorten the budget and never lengthen it.
        action.max_stream_duration = config.RouteActionMaxStreamDuration(grpc_timeout_header_max=span(_whole(timeout)))
    if route.websocket:
        action.upgrade_configs = [config.RouteActionUpgradeConfig(upgrade_type=WEBSOCKET, enabled=True)]
    if route.rewrite is not None:
        _set_rewrite(action, route.match, route.rewrite)
    if route.split:
        clusters = [
            config.WeightedClusterClusterWeight(name=name, weight=weight) for name, weight in route.split.items()
        ]
        action.weighted_clusters = config.WeightedCluster(clusters=clusters)
    else:
        action.cluster = route.targets[0]
    return action


def _set_rewrite(action: config.RouteAction, match: Match, rewrite: str) -> None:
    """Replace the matched path or prefix by whole segments, as it was matched: exactly one slash stands at the seam."""
    prefix = (match.prefix or "").rstrip("/")
    if match.prefix is None:
        action.prefix_rewrite = rewrite
    elif prefix and not rewrite.rstrip("/"):
        # What is left of /api may begin with a slash or be nothing at all: only a pattern can tell.
        pattern = matcher.RegexMatcher(regex=f"^{re.escape(prefix)}/?")
        action.regex_rewrite = matcher.RegexMatchAndSubstitute(pattern=pattern, substitution="/")
    else:
        action.prefix_rewrite = rewrite.rstrip("/") + ("" if prefix else "/")


def _whole(timeout: int) -> int:
    """Give a backend all of its nanoseconds: no 504 comes before the document's instant. 0 stays no timeout."""
    return timeout + _TICK if timeout else 0


def _retry(route: Route) -> config.RetryPolicy | None:
    """Retry once where the connection of a safe request could not be made; otherwise only what the document says."""
    retry = route.retry
    if retry is None and route.match.safe and not route.stream:
        retry = Retry()
    if retry is None or retry.attempts == 0:
        return None
    return config.RetryPolicy(
        retry_on=",".join(retry.on),
        num_retries=retry.attempts,
        per_try_timeout=None if retry.per_try is None else span(retry.per_try),
    )


def _mirror(mirror: Mirror) -> config.RouteActionRequestMirrorPolicy:
    share = envoy_type.FractionalPercent(numerator=mirror.percent)
    return config.RouteActionRequestMirrorPolicy(
        cluster=mirror.upstream, runtime_fraction=core.RuntimeFractionalPercent(default_value=share)
    )


def _same_place(routes: list[Route]) -> list[list[Route]]:
    """Group the routes that differ in their methods only and do not take every method."""
    groups: dict[str, list[Route]] = {}
    for route in routes:
        groups.setdefault(repr(route.match.place), []).append(route)
    return [group for group in groups.values() if all(route.match.methods for route in group)]


def _preflight(route: Route, policy: Cors, document: Document) -> config.Route:
    """Route the preflights of known origins, so that the CORS filter, which needs a route, answers them.

    Any other OPTIONS request is a request like others: authenticated, then 405. The headers of the match do not count:
    a preflight has none of those that the request will have.
    """
    match = _match(route.match.model_copy(update={"headers": {}}), ("OPTIONS",))
    match.headers += [
        config.HeaderMatcher(name="origin", string_match=known_origins(policy)),
        config.HeaderMatcher(name="access-control-request-method", string_match=_any_of(route.match.methods)),
    ]
    settings = {AUTHORITY: label(route.id)}
    if route.cors is not None:
        settings[CORS] = pack(cors_policy(route.cors))
    return config.Route(
        name=f"{route.id}.preflight",
        match=match,
        route=_action(route, document),
        typed_per_filter_config=settings,
    )


def _wrong_method(group: list[Route]) -> config.Route:
    """Answer 405 with `Allow` (RFC 9110 section 15.5.6) where a path is served, but not by this method.

    The label is that of the first route of the path, so that even this answer is given only to who may ask.
    """
    methods = sorted({method for route in group for method in route.match.methods})
    return config.Route(
        name=f"{group[0].id}.method",
        match=_match(group[0].match, ()),
        direct_response=config.DirectResponseAction(status=405),
        response_headers_to_add=[header("allow", ", ".join(methods))],
        typed_per_filter_config={AUTHORITY: label(group[0].id)},
    )
