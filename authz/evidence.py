"""What is known about one request while it is judged, and the values that a step can answer with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from authz.certificate import Identity
from authz.plan import Plan
from authz.resident import Mark, Resident
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
class Evidence:
    """The facts, in the order in which the steps find them.

    `plan` is None for a request that no route fits. `serial` names the credential without being it (a `jti`, the id of
    an API key), "" where it has no name. `issued` is when the credential was issued. `marks` are what a denylist can
    name about it. `charges` are what was asked of the
    limiter, `met` the limits that were met, and how.
    """

    request: Request
    resident: Resident
    now: Instant
    plan: Plan | None
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
    proven: str | None = None
    charges: Sequence[Charge] = ()
    met: Sequence[tuple[Quota, Outcome]] = ()

    @property
    def route(self) -> Plan:
        """The plan; every step after the one that finds the route may rely on it."""
        if self.plan is None:
            raise LookupError("a step before the route was found asked for it")
        return self.plan


@dataclass(slots=True)
class Spend:
    """Ask the limiter for room. `then` takes the outcomes, in the order of the charges."""

    charges: Sequence[Charge]
    then: "Callable[[Evidence, Sequence[Outcome]], Answer]"


@dataclass(slots=True)
class WantKey:
    """Ask for an issuer's keys once more. `then` takes whether they changed."""

    issuer_id: str
    kid: str
    then: "Callable[[Evidence, bool], Answer]"


Ask = Spend | WantKey
"""What only the outside can tell. Where it cannot be had, the reply is a Deny, and the decision ends with it."""

Answer = Verdict | Ask | None
"""What a step says: go on, stop, or ask."""

Step = Callable[[Evidence], Answer]


def open_evidence(request: Request, resident: Resident) -> Evidence:
    """Start with what the request itself says. A route id that is not there is the one the document names for that."""
    route = request.route if request.route is not None else resident.snapshot.unlabelled
    plan = resident.plans.get(route) if route is not None else None
    return Evidence(request, resident, request.received, plan)
