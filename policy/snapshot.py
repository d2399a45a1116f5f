"""A document to the policy snapshot that the services hold in memory."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace

from model import snapshot as model
from model.quota import Quota
from policy.codec import dump_snapshot
from policy.gateway import Document
from policy.identity import Consumer, Override
from policy.plane import CLIENT_ADDRESS, ClientCertificate, Plane
from policy.route import Requirement, Route
from policy.scalar import Rate
from policy.shape import LimitShape

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----\s.*?-----END CERTIFICATE-----", re.DOTALL)


def compile_snapshot(document: Document) -> model.Snapshot:
    """Compile the services' half of a document. Equal policies give equal versions."""
    snapshot = model.Snapshot(
        gateway=document.gateway,
        version="",
        planes={name: _plane(name, plane, document) for name, plane in document.planes.items()},
        routes={route.id: _route(route, document) for route in document.routes},
        issuers={
            name: model.Issuer(**{**issuer.model_dump(), "id": name, "jwks": document.place(issuer.jwks)})
            for name, issuer in document.issuers.items()
        },
        introspections={
            name: model.Introspection(**{**point.model_dump(), "id": name, "secret": document.place(point.secret)})
            for name, point in document.introspections.items()
        },
        tiers={name: model.Tier(name, tuple(_limits(tier.limits)), tier.rank) for name, tier in document.tiers.items()},
        consumers={name: _consumer(name, consumer, document) for name, consumer in document.consumers.items()},
        context=_context(document),
        store=_store(document),
        unlabelled=document.unlabelled,
        remove_headers=document.identity_headers,
        api_keys=tuple(map(document.file, document.api_keys)),
        revocation=_revocation(document),
    )
    return replace(snapshot, version=hashlib.sha256(dump_snapshot(snapshot)).hexdigest())


def read_anchors(data: bytes) -> tuple[str, ...]:
    """List the certificates of a PEM file, whatever stands between them."""
    return tuple(f"{anchor}\n" for anchor in _PEM.findall(data.decode("ascii", "replace")))


def _plane(name: str, plane: Plane, document: Document) -> model.Plane:
    certificate = plane.client_certificate
    return model.Plane(
        id=name,
        credentials=plane.credentials,
        certificate=_profile(certificate, document) if certificate is not None else None,
        origin=plane.origin or "",
        realm=plane.realm,
        flood=_limit("flood", plane.flood) if plane.flood is not None else None,
        anonymous_tier=plane.anonymous_tier or "",
        introspection=plane.introspection or next(iter(document.introspections), ""),
        address_header=CLIENT_ADDRESS if plane.trusted_hops else "",
        application=plane.application,
        issuers=plane.issuers,
    )


def _profile(certificate: ClientCertificate, document: Document) -> model.CertificateProfile:
    anchors = read_anchors(document.content(certificate.trust))
    lists = tuple(source if "://" in source else document.file(source) for source in certificate.crls)
    return model.CertificateProfile(anchors=anchors, **{**certificate.model_dump(exclude={"trust"}), "crls": lists})


def _route(route: Route, document: Document) -> model.Route:
    upstream = route.targets[0]
    responses = route.responses
    return model.Route(
        id=route.id,
        plane=route.plane,
        upstream=upstream,
        audience=document.upstreams[upstream].audience or upstream,
        access=model.Access.READ if route.reads else model.Access.WRITE,
        credentials=route.credentials,
        application=route.application,
        requirement=_requirement(route.require),
        limits=tuple(_limits(route.limits)),
        tier_limits=route.tier_limits,
        context=route.context,
        context_per_request=route.context_per_request,
        strip_credentials=route.strip_credentials,
        stream=route.stream,
        answer_fields=document.problems.fields if route.answer_fields is None else route.answer_fields,
        error_style=route.error_style or document.problems.style,
        response=model.Response(responses.problems, responses.strip, tuple(responses.set.items()))
        if responses is not None
        else None,
    )


def _requirement(require: Requirement) -> model.Requirement:
    return model.Requirement(claims=tuple(require.claims.items()), **require.model_dump(exclude={"claims"}))


def _limits(limits: Mapping[str, LimitShape]) -> list[model.Limit]:
    return [_limit(name, limit) for name, limit in limits.items()]


def _limit(name: str, limit: LimitShape) -> model.Limit:
    return model.Limit(_quota(name, limit.rate, enforced=limit.enforced), limit.per, limit.cost)


def _quota(name: str, rate: Rate, *, enforced: bool = True) -> Quota:
    return Quota(name, rate.count, rate.period, rate.burst, rate.algorithm, enforced, rate.concurrent)


def _consumer(name: str, consumer: Consumer, document: Document) -> model.Consumer:
    own = consumer.assertion
    assertion = None
    if own is not None:
        assertion = model.Assertion(**{**own.model_dump(), "jwks": document.place(own.jwks)})
    overrides = tuple(map(_override, consumer.overrides))
    return model.Consumer(name, consumer.tier, consumer.tenant, consumer.organisations, overrides, assertion)


def _override(override: Override) -> model.Override:
    return model.Override(_quota(override.limit, override.rate), override.since, override.until)


def _context(document: Document) -> model.Context:
    context = document.context
    plain = tuple(context.plain.items())
    return model.Context(**{**context.model_dump(), "issuer": context.issuer or document.gateway, "plain": plain})


def _store(document: Document) -> model.Store:
    store = document.store
    files = {name: getattr(store, name) for name in ("ca", "certificate", "key")}
    secrets = {name: document.place(getattr(store, name)) for name in ("password", "hash_key")}
    return model.Store(
        **{
            **store.model_dump(),
            **{name: document.file(file) if file else "" for name, file in files.items()},
            **secrets,
        }
    )


def _revocation(document: Document) -> model.Revocation:
    """Compile where revocations come from; `redis: store` is the Redis in which limits are counted."""
    settings = document.revocation
    feed = None
    if settings.redis is not None:
        feed = _store(document)
        if settings.redis != "store":
            feed = model.Store(kind="redis", urls=(settings.redis,), prefix=feed.prefix)
    return model.Revocation(feed, tuple(map(document.file, settings.files)), settings.max_age)
