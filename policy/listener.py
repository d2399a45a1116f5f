"""Listeners: sockets, TLS, and the HTTP connection manager with everything that it refuses by itself."""

from envoy_data_plane.envoy.config.accesslog import v3 as accesslog
from envoy_data_plane.envoy.config.common.mutation_rules import v3 as rules
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.listener import v3 as config
from envoy_data_plane.envoy.extensions.access_loggers.stream import v3 as stream
from envoy_data_plane.envoy.extensions.filters.listener.proxy_protocol import v3 as proxy_protocol
from envoy_data_plane.envoy.extensions.filters.listener.tls_inspector import v3 as tls_inspector
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.envoy.extensions.http.early_header_mutation.header_mutation import v3 as early
from envoy_data_plane.envoy.extensions.transport_sockets.tls import v3 as tls
from envoy_data_plane.envoy.type.matcher import v3 as matcher

from model.instant import SECOND
from policy.cluster import tls_1_3
from policy.filters import ROOM, http_filters
from policy.gateway import IDENTITY_PREFIXES, Document
from policy.local import local_replies
from policy.plane import Plane
from policy.route import Route
from policy.routing import WEBSOCKET
from policy.secrets import own_certificate
from policy.typed import extension, pack, socket, span, struct, watched

_NOWHERE = core.CidrRange(address_prefix="255.255.255.255", prefix_len=32)

_LOG_FIELDS = {
    "start": "%START_TIME%",
    "plane": "",
    "route": "%ROUTE_NAME%",
    "method": "%REQ(:METHOD)%",
    "protocol": "%PROTOCOL%",
    "status": "%RESPONSE_CODE%",
    "details": "%RESPONSE_CODE_DETAILS%",
    "flags": "%RESPONSE_FLAGS%",
    "milliseconds": "%DURATION%",
    "upstream": "%UPSTREAM_CLUSTER%",
    "received": "%BYTES_RECEIVED%",
    "sent": "%BYTES_SENT%",
    "address": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    "request_id": "%REQ(X-REQUEST-ID)%",
}


def plane_listener(name: str, plane: Plane, document: Document, directory: str) -> config.Listener:
    """Write the listener of a plane; its routes are read from `directory`."""
    chain = config.FilterChain(
        filters=[
            config.Filter(
                name="envoy.filters.network.http_connection_manager",
                typed_config=pack(_manager(name, plane, document, directory)),
            )
        ]
    )
    filters = []
    if plane.proxy_protocol:
        only = [core.ProxyProtocolConfigVersion.V1]
        filters.append(
            config.ListenerFilter(
                name="envoy.filters.listener.proxy_protocol",
                typed_config=pack(proxy_protocol.ProxyProtocol(disallowed_versions=only)),
            )
        )
    if plane.tls is not None:
        inspector = pack(tls_inspector.TlsInspector())
        filters.append(config.ListenerFilter(name="envoy.filters.listener.tls_inspector", typed_config=inspector))
        chain.transport_socket = _transport(name, plane, document, directory)
        chain.transport_socket_connect_timeout = span(10 * SECOND)
    return config.Listener(
        name=name,
        address=socket(plane.listen),
        filter_chains=[chain],
        listener_filters=filters,
        listener_filters_timeout=span(5 * SECOND),
        per_connection_buffer_limit_bytes=ROOM,
        stat_prefix=name,
    )


def _transport(name: str, plane: Plane, document: Document, directory: str) -> core.TransportSocket:
    common = tls.CommonTlsContext(
        tls_params=tls_1_3(),
        tls_certificate_sds_secret_configs=own_certificate(f"plane-{name}", directory),
        alpn_protocols=["h2", "http/1.1"],
    )
    context = tls.DownstreamTlsContext(
        common_tls_context=common,
        # A resumed session still shows the certificate but reports it as not validated: never resume.
        disable_stateless_session_resumption=True,
        disable_stateful_session_resumption=True,
    )
    if plane.client_certificate is not None:
        common.validation_context = tls.CertificateValidationContext(
            trusted_ca=core.DataSource(filename=document.file(plane.client_certificate.trust))
        )
        context.require_client_certificate = plane.client_certificate.required
    return core.TransportSocket(name="envoy.transport_sockets.tls", typed_config=pack(context))


def _manager(name: str, plane: Plane, document: Document, directory: str) -> hcm.HttpConnectionManager:
    limits = document.limits
    return hcm.HttpConnectionManager(
        stat_prefix=name,
        codec_type=hcm.HttpConnectionManagerCodecType.AUTO,
        rds=hcm.Rds(route_config_name=name, config_source=watched(directory, f"rds-{name}.yaml")),
        http_filters=http_filters(name, document),
        common_http_protocol_options=core.HttpProtocolOptions(
            idle_timeout=span(limits.idle_timeout),
            max_headers_count=limits.headers,
            headers_with_underscores_action=core.HttpProtocolOptionsHeadersWithUnderscoresAction.REJECT_REQUEST,
        ),
        http2_protocol_options=core.Http2ProtocolOptions(
            max_concurrent_streams=limits.streams,
            initial_stream_window_size=256 << 10,
            initial_connection_window_size=1 << 20,
            # One bad request of a connection is no reason to lose the others.
            override_stream_error_on_invalid_http_message=True,
            allow_connect=bool(_upgrades(name, document)),
        ),
        upgrade_configs=_upgrades(name, document),
        max_request_headers_kb=-(-limits.header_size // 1024),
        request_headers_timeout=span(limits.headers_timeout),
        request_timeout=span(limits.request_timeout),
        stream_idle_timeout=span(limits.idle_timeout),
        delayed_close_timeout=span(SECOND),
        drain_timeout=span(5 * SECOND),
        use_remote_address=True,
        xff_num_trusted_hops=plane.trusted_hops,
        # No address is trusted for being internal, not even the host's own; an empty list would mean the default.
        internal_address_config=hcm.HttpConnectionManagerInternalAddressConfig(cidr_ranges=[_NOWHERE]),
        early_header_mutation_extensions=[
            extension("envoy.http.early_header_mutation.header_mutation", _sanitiser(name, plane, document))
        ],
        forward_client_cert_details=hcm.HttpConnectionManagerForwardClientCertDetails.SANITIZE,
        generate_request_id=True,
        preserve_external_request_id=plane.request_id == "preserve",
        always_set_request_id_in_response=True,
        normalize_path=True,
        merge_slashes=True,
        path_with_escaped_slashes_action=hcm.HttpConnectionManagerPathWithEscapedSlashesAction.REJECT_REQUEST,
        strip_any_host_port=True,
        strip_trailing_host_dot=True,
        server_header_transformation=hcm.HttpConnectionManagerServerHeaderTransformation.OVERWRITE,
        server_name="wardgate",
        local_reply_config=local_replies(),
        access_log=[_access_log(name)] if document.access_log == "stdout" else [],
    )


def _upgrades(plane: str, document: Document) -> list[hcm.HttpConnectionManagerUpgradeConfig]:
    """Name the upgrades that a route may allow; the others allow none. Over HTTP/2 it is a CONNECT (RFC 8441)."""
    if not any(route.websocket for route in document.routes if route.plane == plane):
        return []
    return [hcm.HttpConnectionManagerUpgradeConfig(upgrade_type=WEBSOCKET, enabled=False)]


def _speaks_grpc(route: Route, document: Document) -> bool:
    return not route.transcode and any(document.upstreams[name].protocol == "grpc" for name in route.targets)


def _sanitiser(name: str, plane: Plane, document: Document) -> early.HeaderMutation:
    """Remove what only the gateway may say, before any filter and any rule of Envoy's own reads it."""
    prefixes = [
        rules.HeaderMutation(
            remove_on_match=rules.HeaderMutationRemoveOnMatch(
                key_matcher=matcher.StringMatcher(prefix=prefix, ignore_case=True)
            )
        )
        for prefix in IDENTITY_PREFIXES
        if not (plane.trusted_hops and prefix == "x-forwarded-")
    ]
    names = document.hidden()
    if not any(route.plane == name and _speaks_grpc(route, document) for route in document.routes):
        # A deadline of a caller's choosing has no business with budgets of ours; gRPC callers may shorten theirs.
        names.add("grpc-timeout")
    if plane.trusted_hops:
        names |= {"x-forwarded-host", "x-forwarded-port", "x-forwarded-prefix", "x-forwarded-client-cert"}
    return early.HeaderMutation(mutations=[*prefixes, *(rules.HeaderMutation(remove=item) for item in sorted(names))])


def _access_log(plane: str) -> accesslog.AccessLog:
    """Log one JSON line per request: named fields only, neither path nor any header that could hold a credential."""
    fields = struct({**_LOG_FIELDS, "plane": plane})
    log = stream.StdoutAccessLog(log_format=core.SubstitutionFormatString(json_format=fields))
    return accesslog.AccessLog(name="envoy.access_loggers.stdout", typed_config=pack(log))
