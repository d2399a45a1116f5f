"""The HTTP filters of a plane, in their order, and what a route says to each of them.

header_mutation is the last to see answers; cors answers preflights, which carry no credential; rbac refuses what is too
large to be looked at; ext_authz asks the sidecar; buffer reads bodies, only of callers who may call, and a second rbac
bounds what was read; lua refuses what the transcoder would drop; lua, ext_proc and the transcoder run where a route
asks for them.
"""

import re
from pathlib import Path
from typing import Any

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.rbac import v3 as rbac
from envoy_data_plane.envoy.config.route import v3 as route_config
from envoy_data_plane.envoy.extensions.filters.http.buffer import v3 as buffer
from envoy_data_plane.envoy.extensions.filters.http.cors import v3 as cors
from envoy_data_plane.envoy.extensions.filters.http.ext_authz import v3 as ext_authz
from envoy_data_plane.envoy.extensions.filters.http.ext_proc import v3 as ext_proc
from envoy_data_plane.envoy.extensions.filters.http.grpc_json_transcoder import v3 as transcoder
from envoy_data_plane.envoy.extensions.filters.http.lua import v3 as lua
from envoy_data_plane.envoy.extensions.filters.http.rbac import v3 as rbac_filter
from envoy_data_plane.envoy.extensions.filters.http.router import v3 as router
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.envoy.type import v3 as envoy_type
from envoy_data_plane.envoy.type.matcher import v3 as matcher
from envoy_data_plane.google.api.expr import v1alpha1 as cel
from envoy_data_plane.google.protobuf import Any as Packed

from policy.answers import answer_filters, answer_rules
from policy.descriptor import cut_descriptors
from policy.gateway import SIDECAR, Document
from policy.plane import CLIENT_ADDRESS, Cors, Plane
from policy.route import Route
from policy.transcoding import request_fields
from policy.typed import grpc, pack, regex, span, struct

CORS = "envoy.filters.http.cors"
AUTHORITY = "envoy.filters.http.ext_authz"
PROCESSOR = "envoy.filters.http.ext_proc"
PLACES = "wardgate.places"
TRANSCODER = "envoy.filters.http.grpc_json_transcoder"
ADMISSION = "envoy.filters.http.rbac"
FIELDS = "envoy.filters.http.lua"
BUFFER = "envoy.filters.http.buffer"
MEASURE = "wardgate.body"
LABEL = "wardgate.route"
ROOM = 1 << 20
"""The bound at which Envoy stops reading a request that waits for a decision; one piece may come on top."""

# All that the sidecar reads of the header fields: where a credential can be, of any kind, and what names a request.
# The rest would be copied into every question and answer nothing. Repeated fields arrive as often as they came.
_READ = ("authorization", "x-api-key", "apikey", "dpop", "host", "x-request-id")
# What ext_proc is told beside the headers: the route's name is its wardgate id.
_ATTRIBUTES = ["xds.route_name", "request.id"]


def http_filters(plane: str, document: Document) -> list[hcm.HttpFilter]:
    """List the filters of a plane; those that are disabled wait for a route to enable them.

    The buffer too: where no route fits, nobody was asked, and a stranger's body must not be waited for, nor held.
    """
    limit = document.limits.body
    return [
        *answer_filters(plane, document),
        hcm.HttpFilter(name=CORS, typed_config=pack(cors.Cors())),
        hcm.HttpFilter(
            name=ADMISSION, typed_config=pack(rbac_filter.Rbac(rules=_admission(document.limits.url, limit)))
        ),
        hcm.HttpFilter(name=AUTHORITY, typed_config=pack(_authority(document.planes[plane], document))),
        # Next to ext_authz: what is refused between the two would hold its place until that expires.
        hcm.HttpFilter(name=PLACES, typed_config=pack(_places(document)), disabled=True),
        hcm.HttpFilter(name=BUFFER, typed_config=pack(_room(limit)), disabled=True),
        # What came without a length has one now, whether it came before the decision or after it.
        hcm.HttpFilter(name=MEASURE, typed_config=pack(rbac_filter.Rbac(rules=_deny_all(_beyond(limit))))),
        hcm.HttpFilter(name=FIELDS, typed_config=pack(_fields()), disabled=True),
        hcm.HttpFilter(name=PROCESSOR, typed_config=pack(_processor(document)), disabled=True),
        hcm.HttpFilter(
            name=TRANSCODER, typed_config=pack(transcoder.GrpcJsonTranscoder(proto_descriptor_bin=b"")), disabled=True
        ),
        hcm.HttpFilter(name="envoy.filters.http.router", typed_config=pack(router.Router(suppress_envoy_headers=True))),
    ]


def route_filters(route: Route, document: Document) -> dict[str, Packed]:
    """Say what one route wants of the filters. Nothing here can switch ext_authz off."""
    settings = {AUTHORITY: label(route.id)}
    settings |= _body_limit(route, document)
    if _takes_places(route, document):
        settings[PLACES] = pack(
            ext_proc.ExtProcPerRoute(overrides=ext_proc.ExtProcOverrides(processing_mode=_open_mode()))
        )
    settings |= answer_rules(route)
    if route.responses is not None and route.responses.problems:
        settings[PROCESSOR] = pack(
            ext_proc.ExtProcPerRoute(overrides=ext_proc.ExtProcOverrides(processing_mode=_mode()))
        )
    if route.transcode:
        settings[FIELDS] = pack(lua.LuaPerRoute(filter_context=struct(_request(route, document))))
        settings[TRANSCODER] = pack(_transcoder(route, document))
    if route.cors is not None:
        settings[CORS] = pack(cors_policy(route.cors))
    return settings


def _body_limit(route: Route, document: Document) -> dict[str, Packed]:
    """Give a route the limit of its bodies; a stream lets those of any size through, as they come."""
    limits = document.limits
    if route.stream:
        admission = rbac_filter.Rbac(rules=_admission(limits.url, None))
        return {MEASURE: pack(rbac_filter.RbacPerRoute()), ADMISSION: pack(rbac_filter.RbacPerRoute(rbac=admission))}
    body = limits.body if route.body is None else route.body
    settings = {BUFFER: pack(buffer.BufferPerRoute(buffer=_room(body)))}
    if route.body is not None:
        for name, rules in ((MEASURE, _deny_all(_beyond(body))), (ADMISSION, _admission(limits.url, body))):
            settings[name] = pack(rbac_filter.RbacPerRoute(rbac=rbac_filter.Rbac(rules=rules)))
    return settings


def _room(body: int) -> buffer.Buffer:
    """Give a body its room, and never less than four times what is read before the decision.

    At a bound Envoy stops reading, and goes on when half of it is free. A bound that is set afterwards must make that
    so: what exceeds it by then is not refused, but passed on, or never read to its end.
    """
    return buffer.Buffer(max_request_bytes=max(body, 4 * ROOM))


def label(route: str) -> Packed:
    """Tell ext_authz the wardgate id of a route."""
    settings = ext_authz.CheckSettings(context_extensions={LABEL: route}, disable_request_body_buffering=True)
    return pack(ext_authz.ExtAuthzPerRoute(check_settings=settings))


def cors_policy(policy: Cors) -> cors.CorsPolicy:
    """Write the cross-origin rules. `*` in an origin stands for letters, digits, dots and hyphens."""
    return cors.CorsPolicy(
        allow_origin_string_match=[known_origins(policy)],
        allow_methods=", ".join(policy.methods),
        allow_headers=", ".join(policy.headers),
        expose_headers=", ".join(policy.expose),
        max_age=str(policy.max_age // 1_000_000_000),
        allow_credentials=policy.credentials,
    )


def known_origins(policy: Cors) -> matcher.StringMatcher:
    """Match the origins of a policy; `*` alone is any."""
    if "*" in policy.origins:
        return regex(".+")
    return regex("|".join(re.escape(origin).replace(r"\*", "[A-Za-z0-9.-]+") for origin in policy.origins))


def _authority(plane: Plane, document: Document) -> ext_authz.ExtAuthz:
    read = (*_READ, CLIENT_ADDRESS) if plane.trusted_hops else _READ
    return ext_authz.ExtAuthz(
        grpc_service=grpc(SIDECAR, document.sidecar.timeout),
        transport_api_version=core.ApiVersion.V3,
        failure_mode_allow=False,
        status_on_error=envoy_type.HttpStatus(code=envoy_type.StatusCode.ServiceUnavailable),
        clear_route_cache=False,
        validate_mutations=True,
        include_peer_certificate=True,
        include_tls_session=True,
        encode_raw_headers=True,
        allowed_headers=matcher.ListStringMatcher(patterns=[matcher.StringMatcher(exact=name) for name in read]),
        stat_prefix=SIDECAR,
    )


def _processor(document: Document) -> ext_proc.ExternalProcessor:
    return ext_proc.ExternalProcessor(
        # Its deadline would bound the whole stream: each message has its own.
        grpc_service=core.GrpcService(envoy_grpc=core.GrpcServiceEnvoyGrpc(cluster_name=SIDECAR)),
        failure_mode_allow=False,
        processing_mode=_mode(),
        message_timeout=span(document.sidecar.process_timeout),
        max_message_timeout=span(document.sidecar.process_timeout),
        request_attributes=_ATTRIBUTES,
        response_attributes=_ATTRIBUTES,
        route_cache_action=ext_proc.ExternalProcessorRouteCacheAction.RETAIN,
        stat_prefix=SIDECAR,
    )


def _mode() -> ext_proc.ProcessingMode:
    header, body = ext_proc.ProcessingModeHeaderSendMode, ext_proc.ProcessingModeBodySendMode
    return ext_proc.ProcessingMode(
        request_header_mode=header.SKIP,
        response_header_mode=header.SEND,
        request_body_mode=body.NONE,
        response_body_mode=body.NONE,
        request_trailer_mode=header.SKIP,
        response_trailer_mode=header.SKIP,
    )


def _takes_places(route: Route, document: Document) -> bool:
    """Tell whether somebody meets a limit of places on a route: its own, that of a tier, or that of an override."""
    if any(limit.rate.concurrent for limit in route.limits.values()):
        return True
    tiers = (limit.rate for tier in document.tiers.values() for limit in tier.limits.values())
    overrides = (override.rate for consumer in document.consumers.values() for override in consumer.overrides)
    return any(rate.concurrent for rate in (*(tiers if route.tier_limits else ()), *overrides))


def _places(document: Document) -> ext_proc.ExternalProcessor:
    """Keep a stream to wardgate open for as long as an exchange lasts, so that its places are freed when it ends.

    Where that stream fails, the exchange goes on: its places expire by themselves.
    """
    told = ext_proc.MetadataOptionsMetadataNamespaces(untyped=[AUTHORITY])
    return ext_proc.ExternalProcessor(
        grpc_service=core.GrpcService(envoy_grpc=core.GrpcServiceEnvoyGrpc(cluster_name=SIDECAR)),
        failure_mode_allow=True,
        processing_mode=_open_mode(),
        message_timeout=span(document.sidecar.process_timeout),
        max_message_timeout=span(document.sidecar.process_timeout),
        metadata_options=ext_proc.MetadataOptions(forwarding_namespaces=told),
        route_cache_action=ext_proc.ExternalProcessorRouteCacheAction.RETAIN,
        stat_prefix=PLACES,
    )


def _open_mode() -> ext_proc.ProcessingMode:
    """Ask for the request's headers, and for trailers: as long as those may come Envoy keeps the stream open."""
    header, body = ext_proc.ProcessingModeHeaderSendMode, ext_proc.ProcessingModeBodySendMode
    return ext_proc.ProcessingMode(
        request_header_mode=header.SEND,
        response_header_mode=header.SKIP,
        request_body_mode=body.NONE,
        response_body_mode=body.NONE,
        request_trailer_mode=header.SKIP,
        response_trailer_mode=header.SEND,
    )


def _fields() -> lua.Lua:
    """Run policy/fields.lua, which changes nothing and so never makes Envoy choose the route again."""
    script = Path(__file__).with_name("fields.lua").read_text(encoding="utf-8")
    return lua.Lua(default_source_code=core.DataSource(inline_string=script), clear_route_cache=False)


def _request(route: Route, document: Document) -> dict[str, Any]:
    upstream = document.upstreams[route.targets[0]]
    return request_fields(document.content(upstream.descriptors or ""), upstream.services, route.match)


def _transcoder(route: Route, document: Document) -> transcoder.GrpcJsonTranscoder:
    upstream = document.upstreams[route.targets[0]]
    problems = route.responses is not None and route.responses.problems
    return transcoder.GrpcJsonTranscoder(
        proto_descriptor_bin=cut_descriptors(document.content(upstream.descriptors or ""), upstream.services),
        services=list(upstream.services),
        match_incoming_request_route=True,
        # Where ext_proc writes the problem document it needs the gRPC status as headers; elsewhere Envoy writes JSON.
        convert_grpc_status=not problems,
        request_validation_options=transcoder.GrpcJsonTranscoderRequestValidationOptions(
            reject_unknown_method=True, reject_unknown_query_parameters=True, reject_binding_body_field_collisions=True
        ),
        print_options=transcoder.GrpcJsonTranscoderPrintOptions(
            always_print_primitive_fields=True, preserve_proto_field_names=True, stream_newline_delimited=True
        ),
        max_request_body_size=document.limits.body if route.body is None else route.body,
        max_response_body_size=upstream.response,
    )


# RFC 3986 section 3.2.2 without user information, and without the comma.
_HOST = r"([A-Za-z0-9._~!$&'()*+;=%-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]*)?"


def _admission(url: int, body: int | None) -> rbac.Rbac:
    """Deny what is not to be looked at: a URL that is too long, a body that says so itself (None: bodies of any size).

    And a Host that is empty or names two: Envoy joins repeated ones with a comma (RFC 9112 section 3.2).
    """
    no_host = route_config.HeaderMatcher(
        name=":authority", string_match=regex(_HOST), invert_match=True, treat_missing_header_as_empty=True
    )
    policies = {
        "host-malformed": _deny(rbac.Permission(header=no_host), None),
        "url-too-long": _deny(rbac.Permission(any=True), _longer_than(url)),
    }
    return _deny_all(policies if body is None else policies | _beyond(body))


def _beyond(body: int) -> dict[str, rbac.Policy]:
    """Match bodies that are too large by their length, which the buffer filter sets where the client did not."""
    beyond = envoy_type.Int64Range(start=body + 1, end=(1 << 63) - 1)
    announced = route_config.HeaderMatcher(name="content-length", range_match=beyond)
    return {"body-too-large": _deny(rbac.Permission(header=announced), None)}


def _deny_all(policies: dict[str, rbac.Policy]) -> rbac.Rbac:
    return rbac.Rbac(action=rbac.RbacAction.DENY, policies=policies)


def _deny(permission: rbac.Permission, condition: cel.Expr | None) -> rbac.Policy:
    return rbac.Policy(permissions=[permission], principals=[rbac.Principal(any=True)], condition=condition)


def _longer_than(most: int) -> cel.Expr:
    """Write `size(request.path) > most` as the CEL syntax tree that the filter takes."""
    request = cel.Expr(ident_expr=cel.ExprIdent(name="request"))
    path = cel.Expr(select_expr=cel.ExprSelect(operand=request, field="path"))
    size = cel.Expr(call_expr=cel.ExprCall(function="size", args=[path]))
    limit = cel.Expr(const_expr=cel.Constant(int64_value=most))
    return cel.Expr(call_expr=cel.ExprCall(function="_>_", args=[size, limit]))
