"""Clusters: the upstreams of the document and the sidecar itself."""

from envoy_data_plane.envoy.config.cluster import v3 as cluster
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.endpoint import v3 as endpoint
from envoy_data_plane.envoy.extensions.clusters.common.dns import v3 as dns_common
from envoy_data_plane.envoy.extensions.clusters.dns import v3 as dns
from envoy_data_plane.envoy.extensions.transport_sockets.tls import v3 as tls
from envoy_data_plane.envoy.extensions.upstreams.http import v3 as protocols
from envoy_data_plane.envoy.type.v3 import Percent

from model.instant import SECOND
from policy.gateway import SIDECAR, Document
from policy.scalar import Address
from policy.secrets import own_certificate
from policy.typed import exact, pack, socket, span
from policy.upstream import Breaker, Health, Outliers, Upstream, UpstreamTls

_PROTOCOL_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_BALANCING = {
    "least-request": cluster.ClusterLbPolicy.LEAST_REQUEST,
    "round-robin": cluster.ClusterLbPolicy.ROUND_ROBIN,
    "random": cluster.ClusterLbPolicy.RANDOM,
}
# Pings keep a connection through idle times and notice a dead peer. gRPC servers that punish pings more frequent than
# every 10 s (GOAWAY too_many_pings) are served by an interval well above it.
_KEEPALIVE = core.KeepaliveSettings(interval=span(30 * SECOND), timeout=span(5 * SECOND))

# Where there are several sidecars to choose from, one that drains says so before it stops taking calls, and one that is
# gone is left alone after its first refused connection. A single one is asked whatever it says: there is no other.
_WORKER_HEALTH = core.HealthCheck(
    timeout=span(SECOND),
    interval=span(SECOND // 4),
    no_traffic_interval=span(SECOND // 4),
    unhealthy_interval=span(SECOND // 4),
    unhealthy_threshold=1,
    healthy_threshold=1,
    grpc_health_check=core.HealthCheckGrpcHealthCheck(),
)
# A server may end connections after some number of calls, and a call that Envoy begins while it reads that farewell
# fails. So Envoy is the one that moves on, before the server would ask for it (`sidecar.loop.CALLS`).
_SIDECAR_CALLS = 2500
_PANIC = 50
"""Percent of endpoints out, beyond which Envoy would use all of them again if it were not told otherwise."""
_WORKER_OUTLIERS = cluster.OutlierDetection(
    split_external_local_origin_errors=True,
    consecutive_local_origin_failure=1,
    enforcing_consecutive_local_origin_failure=100,
    enforcing_consecutive_5xx=0,
    enforcing_success_rate=0,
    enforcing_local_origin_success_rate=0,
    interval=span(SECOND // 4),
    base_ejection_time=span(SECOND // 2),
    max_ejection_time=span(5 * SECOND),
    max_ejection_percent=100,
)


def sidecar_cluster(document: Document) -> cluster.Cluster:
    """Write the cluster of wardgate itself, which may never have less room than the upstreams together."""
    breakers = [upstream.breaker for upstream in document.upstreams.values()]
    # each request in flight may hold two streams (its places, its response) while another one is decided on
    room = max(16_384, 3 * sum(breaker.requests for breaker in breakers))
    breaker = Breaker.model_construct(connections=4096, pending=room, requests=room, retries=1)
    places = document.sockets()
    built = _cluster(
        SIDECAR,
        places,
        breaker,
        connect_timeout=SECOND // 4,
        idle_timeout=3600 * SECOND,
        http2=True,
        calls=_SIDECAR_CALLS,
    )
    if len(places) > 1 or not places[0].numeric:
        built.health_checks = [_WORKER_HEALTH]
        built.outlier_detection = _WORKER_OUTLIERS
    return built


def upstream_cluster(name: str, upstream: Upstream, document: Document, directory: str = ".") -> cluster.Cluster:
    """Write the cluster of one upstream; `directory` is where Envoy finds its files."""
    built = _cluster(
        name,
        upstream.endpoints,
        upstream.breaker,
        connect_timeout=upstream.connect_timeout,
        idle_timeout=upstream.idle_timeout,
        http2=upstream.protocol != "http",
    )
    built.lb_policy = _BALANCING[upstream.balancing]
    built.per_connection_buffer_limit_bytes = 1 << 20
    if upstream.tls is not None:
        built.transport_socket = _transport(name, upstream.tls, document, directory, http2=upstream.protocol != "http")
    if upstream.outliers is not None:
        built.outlier_detection = _outliers(upstream.outliers)
        built.common_lb_config = _panic(upstream.outliers)
    if upstream.health is not None:
        built.health_checks = [_health(upstream.health)]
    return built


def _cluster(
    name: str,
    endpoints: tuple[Address, ...],
    breaker: Breaker,
    *,
    connect_timeout: int,
    idle_timeout: int,
    http2: bool,
    calls: int | None = None,
) -> cluster.Cluster:
    named = any(not address.numeric for address in endpoints)
    return cluster.Cluster(
        name=name,
        type=None if named else cluster.ClusterDiscoveryType.STATIC,
        cluster_type=_resolved() if named else None,
        connect_timeout=span(connect_timeout),
        lb_policy=cluster.ClusterLbPolicy.LEAST_REQUEST,
        load_assignment=_endpoints(name, endpoints),
        circuit_breakers=_breakers(breaker),
        typed_extension_protocol_options={_PROTOCOL_OPTIONS: pack(_protocol(idle_timeout, http2=http2, calls=calls))},
    )


def _resolved() -> cluster.ClusterCustomClusterType:
    """Resolve host names, all their addresses, anew every 5 s: records of container platforms outlive their truth."""
    settings = dns.DnsCluster(
        dns_refresh_rate=span(5 * SECOND),
        dns_failure_refresh_rate=dns.DnsClusterRefreshRate(base_interval=span(SECOND), max_interval=span(5 * SECOND)),
        dns_lookup_family=dns_common.DnsLookupFamily.V4_PREFERRED,
    )
    return cluster.ClusterCustomClusterType(name="envoy.clusters.dns", typed_config=pack(settings))


def _endpoints(name: str, endpoints: tuple[Address, ...]) -> endpoint.ClusterLoadAssignment:
    hosts = [endpoint.LbEndpoint(endpoint=endpoint.Endpoint(address=socket(address))) for address in endpoints]
    return endpoint.ClusterLoadAssignment(
        cluster_name=name, endpoints=[endpoint.LocalityLbEndpoints(lb_endpoints=hosts)]
    )


def _breakers(breaker: Breaker) -> cluster.CircuitBreakers:
    thresholds = [
        cluster.CircuitBreakersThresholds(
            priority=priority,
            max_connections=breaker.connections,
            max_pending_requests=breaker.pending,
            max_requests=breaker.requests,
            max_retries=breaker.retries,
            track_remaining=True,
        )
        for priority in (core.RoutingPriority.DEFAULT, core.RoutingPriority.HIGH)
    ]
    return cluster.CircuitBreakers(thresholds=thresholds)


def _protocol(idle_timeout: int, *, http2: bool, calls: int | None) -> protocols.HttpProtocolOptions:
    explicit = protocols.HttpProtocolOptionsExplicitHttpConfig()
    if http2:
        explicit.http2_protocol_options = core.Http2ProtocolOptions(
            connection_keepalive=_KEEPALIVE,
            initial_stream_window_size=1 << 20,
            initial_connection_window_size=4 << 20,
        )
    else:
        explicit.http_protocol_options = core.Http1ProtocolOptions()
    return protocols.HttpProtocolOptions(
        common_http_protocol_options=core.HttpProtocolOptions(
            idle_timeout=span(idle_timeout), max_requests_per_connection=calls
        ),
        explicit_http_config=explicit,
    )


def _transport(
    name: str, settings: UpstreamTls, document: Document, directory: str, *, http2: bool
) -> core.TransportSocket:
    server = tls.SubjectAltNameMatcher(
        san_type=tls.SubjectAltNameMatcherSanType.DNS, matcher=exact(settings.server_name, ignore_case=True)
    )
    common = tls.CommonTlsContext(
        tls_params=tls_1_3(),
        alpn_protocols=["h2" if http2 else "http/1.1"],
        validation_context=tls.CertificateValidationContext(
            trusted_ca=core.DataSource(filename=document.file(settings.trust)), match_typed_subject_alt_names=[server]
        ),
    )
    if settings.certificate is not None:
        common.tls_certificate_sds_secret_configs = own_certificate(f"upstream-{name}", directory)
    context = tls.UpstreamTlsContext(common_tls_context=common, sni=settings.server_name)
    return core.TransportSocket(name="envoy.transport_sockets.tls", typed_config=pack(context))


def tls_1_3() -> tls.TlsParameters:
    """Allow TLS 1.3 and nothing else."""
    version = tls.TlsParametersTlsProtocol.TLSv1_3
    return tls.TlsParameters(tls_minimum_protocol_version=version, tls_maximum_protocol_version=version)


def _outliers(outliers: Outliers) -> cluster.OutlierDetection:
    row = outliers.row()
    built = cluster.OutlierDetection(
        consecutive_5xx=row,
        consecutive_gateway_failure=row,
        enforcing_consecutive_5xx=100 if row else 0,
        enforcing_consecutive_gateway_failure=100 if row else 0,
        enforcing_success_rate=0,
        interval=span(outliers.interval),
        base_ejection_time=span(outliers.eject),
        max_ejection_time=span(max(outliers.eject, outliers.longest)),
        max_ejection_percent=outliers.most,
    )
    if outliers.failure_percent is not None:
        built.failure_percentage_threshold = outliers.failure_percent
        built.failure_percentage_minimum_hosts = 1
        built.failure_percentage_request_volume = outliers.volume
        built.enforcing_failure_percentage = 100
    return built


def _panic(outliers: Outliers) -> cluster.ClusterCommonLbConfig | None:
    """Let Envoy leave out as many as may be out: by default it uses all of them again once half are gone."""
    if outliers.most <= _PANIC:
        return None
    return cluster.ClusterCommonLbConfig(healthy_panic_threshold=Percent(value=100 - outliers.most))


def _health(health: Health) -> core.HealthCheck:
    built = core.HealthCheck(
        timeout=span(health.timeout),
        interval=span(health.interval),
        unhealthy_threshold=health.unhealthy,
        healthy_threshold=health.healthy,
    )
    if health.path is not None:
        built.http_health_check = core.HealthCheckHttpHealthCheck(path=health.path)
    else:
        built.grpc_health_check = core.HealthCheckGrpcHealthCheck(service_name=health.service or "")
    return built
