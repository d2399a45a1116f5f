"""What is known about one request while it is judged, and the values that a step can answer with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from authz.certificate import Identity
from authz.keyrecord import KeyRecord
from authz.plan import NOWHERE, Plan
from authz.resident import Keys, Mark, Resident, Verified
from authz.token import Claims
from model.instant import Instant
from model.quota import Charge, Outcome, Quota
from model.request import Request
from model.snapshot import Consumer, Kind, Tier
from model.verdict import Caller, Verdict


@dataclass(slots=True)
class Credential:
    """The one credential of a request. `scheme` is "bearer" or "dpop" for an Authorization field, "query", or ""."""

    kind: Kind
    text: str = field(default="", repr=False)
    scheme: str = ""


@dataclass(slots=True)
class Application:
    """The application of a request that names one beside its user: the record of its key, and the client."""

    record: KeyRecord
    consumer: Consumer


@dataclass(slots=True)
class Evidence:
    """The facts, in the order in which the steps find them.

    `plan` is NOWHERE for a request that no route fits. `serial` names the credential without being it (a `jti`, the
    id of an API key), "" where it has no name. `issued` is when the credential was issued. `marks` are what a denylist
    can name about it. `verified` is what is remembered of a token. `charges` are what was asked of the limiter, `met`
    the limits that were met, and how.
    """

    request: Request
    resident: Resident
    now: Instant
    plan: Plan
    credential: Credential | None = None
    identity: Identity | None = None
    claims: Claims | None = None
    consumer: Consumer | None = None
    tier: Tier | None = None
    caller: Caller = field(default_factory=Caller)
    scopes: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    serial: str = ""
    issued: Instant | None = None
    marks: tuple[Mark, ...] = ()
    verified: Verified | None = None
    application: Application | None = None
    charges: Sequence[Charge] = ()
    met: Sequence[tuple[Quota, Outcome]] = ()


@dataclass(slots=True)
class Ask:
    """What only the outside can tell. `then` takes the reply and answers as a step does.

    Where the reply cannot be had it is a Deny, which ends the decision without `then`.
    """

    then: "Callable[[Evidence, Any], Answer]"


@dataclass(slots=True)
class Spend(Ask):
    """Ask the limiter for room. The reply is the outcomes, in the order of the charges."""

    charges: Sequence[Charge]


@dataclass(slots=True)
class WantKey(Ask):
    """Ask for an issuer's keys once more. The reply is whether they changed."""

    keys: Keys
    issuer_id: str
    kid: str


@dataclass(slots=True)
class Introspect(Ask):
    """Ask about an opaque token. The reply is its claims; a `lenient` question takes older ones over none."""

    endpoint_id: str
    token: str = field(repr=False)
    lenient: bool


Answer = Verdict | Ask | None
"""What a step says: go on, stop, or ask."""

Step = Callable[[Evidence], Answer]


def open_evidence(request: Request, resident: Resident) -> Evidence:
    """Start with what the request itself says. A route id that is not there is the one the document names for that.

    Behind trusted proxies the request gets its client's address here: what Envoy says of the peer is the last proxy's.
    """
    route = request.route if request.route is not None else resident.snapshot.unlabelled
    plan = resident.plans.get(route, NOWHERE) if route is not None else NOWHERE
    if (header := plan.plane.address_header) and header in request.headers:
        request.address = request.headers[header]
    return Evidence(request, resident, request.received, plan)
