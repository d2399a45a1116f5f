"""Everything but the routes: planes, identities, tiers, store and sidecar held against each other."""

import ipaddress
from urllib.parse import urlsplit

from model.snapshot import Dimension, Kind
from policy.finding import Finding, Findings, one_of
from policy.gateway import SIDECAR, Document
from policy.identity import Consumer
from policy.plane import Answers, Plane
from policy.tree import Where

ALGORITHMS = frozenset(f"{family}{size}" for family in ("RS", "PS", "ES") for size in (256, 384, 512)) | {
    "EdDSA",
    "Ed25519",
}
_FRAMING = frozenset(("connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "upgrade"))
_SPOKEN_FOR = frozenset(("authorization", "content-encoding", "content-type", "cookie", "x-request-id"))
_HOPS = frozenset(("proxy-authorization", "proxy-connection", "transfer-encoding"))
_SCHEMES = ("redis", "rediss", "unix")


def check_planes(document: Document) -> Findings:
    """Find planes that cannot listen, cannot recognise what they accept, or whose limits can be dodged."""
    admin, sidecar = document.admin, document.sidecar.address
    sockets = {str(admin): "admin"}
    if not admin.path and not admin.numeric:
        yield Finding(("admin",), str(admin), "an IP address and a port, or a Unix socket")
    if sidecar.port and str(sidecar) in sockets:
        yield Finding(("sidecar", "address"), f"{sidecar}, which is taken by admin", "an address of its own")
    sockets.setdefault(str(sidecar), "sidecar")
    for name, plane in document.planes.items():
        where: Where = ("planes", name)
        listen = str(plane.listen)
        if plane.listen.port and listen in sockets:
            yield Finding((*where, "listen"), f"{listen}, which is taken by {sockets[listen]}", "an address of its own")
        sockets[listen] = f"planes.{name}"
        if plane.listen.path or not plane.listen.numeric:
            yield Finding((*where, "listen"), listen, "an IP address and a port")
        if plane.client_certificate is not None and plane.tls is None:
            yield Finding((*where, "client_certificate"), "client certificates without TLS", "a tls section beside it")
        yield from _check_credentials(where, plane, document)
        if plane.flood is not None and (tuple(plane.flood.per) != (Dimension.ADDRESS,) or plane.flood.rate.concurrent):
            yield Finding(
                (*where, "flood"), "a flood limit by something that is not known yet", "a rate per: [address]"
            )
        for index, host in enumerate(plane.hosts):
            if host in plane.hosts[:index]:
                yield Finding((*where, "hosts", index), f"the host {host!r} again", "each host once")


def _check_credentials(where: Where, plane: Plane, document: Document) -> Findings:
    accepted = (*where, "credentials")
    if Kind.NONE in plane.credentials and plane.anonymous_tier is None and not plane.application:
        found = "none without an anonymous tier"
        yield Finding(accepted, found, "anonymous_tier beside it", counterpart=(*where, "anonymous_tier"))
    if Kind.NONE not in plane.credentials and plane.anonymous_tier is not None:
        yield Finding(
            (*where, "anonymous_tier"), "a tier for callers that are not accepted", "none among the credentials"
        )
    needs: dict[Kind, tuple[object, str, Where]] = {
        Kind.JWT: (document.issuers, "an issuer", ("issuers",)),
        Kind.OPAQUE: (document.introspections, "an introspection endpoint", ("introspections",)),
        Kind.API_KEY: (document.api_keys, "a file in api_keys", ("api_keys",)),
        Kind.ASSERTION: (
            any(consumer.assertion is not None for consumer in document.consumers.values()),
            "a consumer with an assertion section",
            ("consumers",),
        ),
        Kind.CERTIFICATE: (plane.client_certificate, "a client_certificate section", (*where, "client_certificate")),
    }
    for kind in plane.credentials:
        there, what, counterpart = needs.get(kind, (True, "", ()))
        if not there:
            found = f"{kind.value} without {what}"
            yield Finding(accepted, found, f"{what} to recognise it by", counterpart=counterpart)

    if Kind.ASSERTION in plane.credentials and plane.origin is None:
        found = "assertion without an origin that assertions can be made out to"
        yield Finding(accepted, found, "origin beside it", counterpart=(*where, "origin"))
    for index, name in enumerate(plane.issuers):
        if name not in document.issuers:
            yield Finding((*where, "issuers", index), f"the unknown issuer {name!r}", one_of([*document.issuers]))
    if plane.application and Kind.API_KEY in plane.credentials:
        found = "api-key, which is the application's on this plane"
        yield Finding(accepted, found, "the credentials of users, or none", counterpart=(*where, "application"))
    if plane.application and not document.api_keys:
        found = "applications without a file of their keys"
        yield Finding((*where, "application"), found, "a file in api_keys", counterpart=("api_keys",))
    yield from _check_endpoint(where, plane, document)


def _check_endpoint(where: Where, plane: Plane, document: Document) -> Findings:
    """Find planes of which it cannot be told who knows their opaque tokens."""
    names = [*document.introspections]
    if plane.introspection is not None and plane.introspection not in names:
        yield Finding(
            (*where, "introspection"), f"the unknown introspection endpoint {plane.introspection!r}", one_of(names)
        )
    if Kind.OPAQUE in plane.credentials and plane.introspection is None and len(names) > 1:
        yield Finding((*where, "credentials"), "opaque with several introspection endpoints", "introspection beside it")


def check_tiers(document: Document, known: dict[str, frozenset[str]]) -> Findings:
    """Find tiers that nobody defines, and limits of anonymous callers that leaving something out would dodge."""
    places: list[tuple[Where, str | None]] = [
        *((("planes", name, "anonymous_tier"), plane.anonymous_tier) for name, plane in document.planes.items()),
        *((("issuers", name, "tier"), issuer.tier) for name, issuer in document.issuers.items()),
        *((("introspections", name, "tier"), point.tier) for name, point in document.introspections.items()),
        *((("consumers", name, "tier"), consumer.tier) for name, consumer in document.consumers.items()),
    ]
    for where, tier in places:
        if tier is not None and tier not in known["tiers"]:
            yield Finding(where, f"the unknown tier {tier!r}", one_of([*known["tiers"]]))
    for plane in document.planes.values():
        tier = plane.anonymous_tier
        for name, limit in document.tiers[tier].limits.items() if tier in document.tiers else ():
            if Dimension.ADDRESS not in limit.per:
                where = ("tiers", str(tier), "limits", name)
                yield Finding(where, "a limit of anonymous callers by what they do not have", "per: [address, ...]")
    for name, consumer in document.consumers.items():
        yield from _check_overrides(("consumers", name), consumer, document)


def _check_overrides(where: Where, consumer: Consumer, document: Document) -> Findings:
    tier = document.tiers.get(consumer.tier)
    for index, override in enumerate(consumer.overrides):
        here: Where = (*where, "overrides", index)
        if tier is not None and override.limit not in tier.limits:
            yield Finding((*here, "limit"), f"the unknown limit {override.limit!r}", one_of([*tier.limits]))
        if override.since is not None and override.until is not None and override.since >= override.until:
            yield Finding((*here, "until"), "an end that is not after the beginning", "an instant after since")


def check_issuers(document: Document) -> Findings:
    """Find issuers whose keys anybody could forge, and issuers that cannot be told apart."""
    seen: dict[str, str] = {}
    for name, issuer in document.issuers.items():
        where: Where = ("issuers", name)
        if issuer.issuer in seen:
            expected = f"an issuer of its own (issuers.{seen[issuer.issuer]} has it)"
            yield Finding((*where, "issuer"), repr(issuer.issuer), expected)
        seen.setdefault(issuer.issuer, name)
        weak = [algorithm for algorithm in issuer.algorithms if algorithm not in ALGORITHMS]
        if weak:
            yield Finding((*where, "algorithms"), repr(weak[0]), one_of([*ALGORITHMS]))
        if not _is_safe(issuer.jwks):
            expected = "an https: or file: address, or an http: address of this machine"
            yield Finding((*where, "jwks"), repr(issuer.jwks), expected)
    for name, consumer in document.consumers.items():
        yield from _check_assertion(("consumers", name, "assertion"), consumer)
    for name, point in document.introspections.items():
        if not _is_safe(point.endpoint):
            expected = "an https: address, or an http: address of this machine"
            yield Finding(("introspections", name, "endpoint"), repr(point.endpoint), expected)


def _check_assertion(where: Where, consumer: Consumer) -> Findings:
    if consumer.assertion is None:
        return
    weak = [algorithm for algorithm in consumer.assertion.algorithms if algorithm not in ALGORITHMS]
    if weak:
        yield Finding((*where, "algorithms"), repr(weak[0]), one_of([*ALGORITHMS]))
    if not _is_safe(consumer.assertion.jwks):
        expected = "an https: or file: address, or an http: address of this machine"
        yield Finding((*where, "jwks"), repr(consumer.assertion.jwks), expected)


def _is_safe(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme == "file":
        return bool(parts.path)
    if parts.scheme == "https":
        return bool(host)
    return parts.scheme == "http" and (host == "localhost" or _is_loopback(host))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_rest(document: Document) -> Findings:
    """Find upstreams, stores and sidecars that cannot work as written."""
    for name, upstream in document.upstreams.items():
        where: Where = ("upstreams", name)
        if name == SIDECAR:
            yield Finding(where, f"an upstream named {SIDECAR}", "another name: this one is the sidecar's")
        if upstream.tls is not None and (upstream.tls.certificate is None) != (upstream.tls.key is None):
            yield Finding(
                (*where, "tls"), "a certificate without its key, or a key alone", "certificate and key, or neither"
            )
        if upstream.health is not None and (upstream.health.path is None) != (upstream.protocol == "grpc"):
            yield Finding((*where, "health"), "a health check in another protocol", "service for grpc, path for http")
    if document.sidecar.workers > 1 and not document.sidecar.address.path:
        found = f"{document.sidecar.workers} workers on one address"
        yield Finding(("sidecar", "workers"), found, "a unix: address, of which each worker gets its own")
    if document.unlabelled is not None and document.unlabelled not in {route.id for route in document.routes}:
        expected = one_of([route.id for route in document.routes])
        yield Finding(("unlabelled",), f"the unknown route {document.unlabelled!r}", expected)
    yield from _check_context(document)
    yield from _check_answers(document)
    yield from _check_store(document)
    yield from _check_revocation(document)


def _check_context(document: Document) -> Findings:
    """Find headers that say what is known of a caller under names that are not to be had."""
    context = document.context
    places: list[tuple[Where, str]] = [(("context", "header"), context.header)]
    places += [(("context", "plain", name), name) for name in context.plain]
    for where, name in places:
        if name in _FRAMING | _SPOKEN_FOR | _HOPS or name.startswith(("x-envoy-", "x-forwarded-")):
            yield Finding(where, f"the header {name}", "a header that HTTP and Envoy have no use for")
    if context.header in context.plain:
        yield Finding(("context", "plain", context.header), "the header of the signed context", "another name")


def _check_answers(document: Document) -> Findings:
    """Find hygiene that would break the answers it is meant for."""
    places: list[tuple[Where, Answers | None]] = [
        *((("planes", name, "responses"), plane.responses) for name, plane in document.planes.items()),
        *((("routes", index, "responses"), route.responses) for index, route in enumerate(document.routes)),
    ]
    for where, answers in places:
        for key, names in (("strip", answers.strip), ("set", tuple(answers.set))) if answers is not None else ():
            for name in names:
                if name == "*":
                    yield Finding((*where, key), "every header", "names, or a beginning of names before the *")
                if name in _FRAMING | _HOPS:
                    found = f"{name}, by which HTTP finds the end of an answer or of a connection"
                    yield Finding((*where, key), found, "another header")


def _check_store(document: Document) -> Findings:
    store = document.store
    if store.kind == "redis" and not store.urls:
        yield Finding(("store",), "a Redis store without an address", "urls, at least one")
    if store.topology == "sentinel" and not store.service:
        yield Finding(("store", "topology"), "sentinel without the name of its service", "service beside it")
    for index, url in enumerate(store.urls):
        yield from _check_address(("store", "urls", index), url)


def _check_address(where: Where, url: str) -> Findings:
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _SCHEMES:
        yield Finding(where, repr(url.rpartition("@")[2]), "redis://, rediss:// or unix://")
    elif "@" in rest:
        yield Finding(where, "an address with a password", "password: env:NAME or file:PATH")


def _check_revocation(document: Document) -> Findings:
    settings, where = document.revocation, ("revocation", "redis")
    if settings.redis == "store":
        if document.store.kind != "redis" or document.store.topology == "cluster":
            yield Finding(where, "store, which is no single Redis or Sentinel", "a redis:// address")
    elif settings.redis is not None:
        yield from _check_address(where, settings.redis)
    if settings.max_age is not None and settings.redis is None:
        yield Finding(("revocation", "max_age"), "an age without a feed that could have it", "redis beside it")
