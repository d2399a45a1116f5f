"""Builders for the tests of this room: a small gateway, requests to it, a limiter that counts, and a judge.

Everything stands at one instant, NOW, and every default makes a request that passes: a test says only what it changes.
"""

import dataclasses
import hashlib
from functools import cache

from authz.certificate import read_peer
from authz.evidence import open_evidence
from authz.gather import Pending, begin_verdict, finish_verdict
from authz.resident import FixedKeys, Live, Resident
from authz.ring import ContextRing, encode_segment
from model.instant import MINUTE, SECOND
from model.quota import Outcome, Quota
from model.request import Request
from model.snapshot import (
    Consumer,
    Dimension,
    Kind,
    Limit,
    Plane,
    Requirement,
    Route,
    Snapshot,
    Tier,
)
from pb import ext_authz_pb2 as pb
from tests.authz import pki
from tests.authz.tokens import NAME, NOW, issuer, token, trust

__all__ = ["NAME", "NOW", "token"]

QUOTA = Quota("requests", count=600, period=MINUTE, burst=100)
CLIENT_LIMIT = Limit(QUOTA, (Dimension.CLIENT, Dimension.ROUTE))
ORGANISATION = "PSDDE-BAFIN-123456"


@cache
def ring():
    return ContextRing.create(NOW - SECOND)


@cache
def root():
    return pki.authority()


@cache
def certificate(**options):
    """Envoy's text of a good QWAC; options as of `pki.qwac`."""
    return pki.encoded(pki.qwac(root(), **options))


def confirmation(peer):
    """The `cnf` that binds a token to the certificate of Envoy's text (RFC 8705 section 3.1)."""
    return {"x5t#S256": encode_segment(hashlib.sha256(read_peer(peer).leaf).digest())}


def plane(**changes):
    base = Plane(
        "partner",
        (Kind.JWT,),
        certificate=pki.profile_of(root(), required=False),
        realm="open-banking",
        anonymous_tier="anonymous",
    )
    return dataclasses.replace(base, **changes)


def route(**changes):
    base = Route(
        "accounts",
        "partner",
        upstream="account-ledger",
        audience="account-ledger",
        requirement=Requirement(scopes=("accounts",)),
    )
    return dataclasses.replace(base, **changes)


def requirement(**changes):
    return route(requirement=Requirement(**changes))


def consumer(**changes):
    return dataclasses.replace(Consumer("client-1", "partner", tenant="bank-1"), **changes)


def tiers(*limits):
    """The three tiers; the limits are those of partners."""
    return {
        "anonymous": Tier("anonymous", (CLIENT_LIMIT,), rank=0),
        "internal": Tier("internal", (CLIENT_LIMIT,), rank=1),
        "partner": Tier("partner", limits or (CLIENT_LIMIT,), rank=2),
    }


def snapshot(*, planes=(), routes=(), consumers=(), **changes):
    trusted = changes.pop("issuer", None) or issuer()
    values = {
        "planes": {each.id: each for each in planes or (plane(),)},
        "routes": {each.id: each for each in routes or (route(),)},
        "issuers": {trusted.id: trusted},
        "tiers": tiers(),
        "consumers": {each.client_id: each for each in consumers or (consumer(),)},
        "remove_headers": ("x-authenticated-user", "x-user-roles"),
        **changes,
    }
    return Snapshot("open-banking", "v1", **values)


def live(**changes):
    return Live(**{"ring": ring(), "keys": FixedKeys(trust()), **changes})


def resident(policy=None, **changes):
    """A resident of the policy; changes are those of `Live`."""
    return Resident(policy or snapshot(), live(**changes))


def request(*, bearer=..., headers=None, **changes):
    """A request with a good token; `bearer` None leaves it out, a text replaces it."""
    fields = dict(headers or {})
    if bearer is ...:
        bearer = token()
    if bearer is not None:
        fields.setdefault("authorization", f"Bearer {bearer}")
    values = {
        "method": "GET",
        "path": "/v1/accounts",
        "host": "api.example",
        "scheme": "https",
        "address": "192.0.2.7",
        "id": "req-1",
        "route": "accounts",
        "received": NOW,
        **changes,
    }
    return Request(headers=fields, **values)


class CountingLimiter:
    """A limiter of places that never refill: all or nothing, `burst` for each key. `away` makes it unavailable."""

    def __init__(self, *, resident=True, away=None, wait=30 * SECOND):
        self.resident = resident
        self.away = away
        self.wait = wait
        self.used = {}
        self.spends = []

    def admit(self, charges, now):
        return self._take(charges) if self.resident else None

    async def spend(self, charges, now):
        if self.away is not None:
            raise self.away
        return self._take(charges)

    def _take(self, charges):
        self.spends.append(tuple(charges))
        left = [charge.quota.burst - self.used.get(charge.key, 0) - charge.cost for charge in charges]
        granted = all(rest >= 0 or not charge.quota.enforced for rest, charge in zip(left, charges, strict=True))
        if granted:
            for charge in charges:
                self.used[charge.key] = self.used.get(charge.key, 0) + charge.cost
        return [Outcome(rest >= 0, max(0, rest), 0 if rest >= 0 else self.wait, self.wait) for rest in left]


def drive(coroutine):
    """Run a coroutine that never really waits; an answer that is there already is the answer."""
    if isinstance(coroutine, bytes):
        return coroutine
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise AssertionError("it waited")


def judge(asked=None, house=None, limiter=None):
    """The verdict for a request."""
    question = asked or request(), house or resident(), limiter or CountingLimiter()
    return drive(gather(*question))


async def answered(answer):
    """Wait for an answer that is not there yet."""
    return answer if isinstance(answer, bytes) else await answer


async def gather(*question):
    """Begin a decision and, where it has to wait, finish it."""
    found = begin_verdict(*question)
    return await finish_verdict(found, *question) if isinstance(found, Pending) else found


def evidence(asked=None, house=None):
    return open_evidence(asked or request(), house or resident())


def check_bytes(asked, *, raw=True, lines=None):
    """A CheckRequest as Envoy writes it for a request; `lines` are header lines that may repeat a name."""
    message = pb.CheckRequest()
    attributes = message.attributes
    http = attributes.request.http
    http.id, http.method, http.path = "stream-1", asked.method, asked.path
    http.host, http.scheme = asked.host, asked.scheme
    attributes.source.address.socket_address.address = asked.address
    attributes.source.certificate = asked.certificate
    if asked.route is not None:
        attributes.context_extensions["wardgate.route"] = asked.route
    pairs = [*(asked.headers.items() if lines is None else lines), ("x-request-id", asked.id)]
    for name, value in pairs:
        if raw:
            http.header_map.headers.add(key=name, raw_value=value.encode("latin-1"))
        else:
            http.headers[name] = f"{http.headers[name]},{value}" if name in http.headers else value
    return message.SerializeToString()
