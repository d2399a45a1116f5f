"""What a decision reads: the snapshot, everything parsed from it, and views on what is refreshed in the background."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from authz.certificate import Certificates, StatusBook, Trust, open_trust
from authz.denylist import Denylist, Subject
from authz.keytable import KeyTable, index_keys
from authz.plan import Plan, draw_plans
from authz.proof import Replays
from authz.recent import Recent
from authz.ring import ContextRing
from authz.token import Claims, Trusted
from model.instant import Instant
from model.quota import Charge
from model.reason import Reason
from model.snapshot import Consumer, Snapshot, Tier
from model.verdict import Caller, Deny

Mark = tuple[Subject, str, str]
"""One thing that a denylist can name: what it is, its scope and its name (see `authz.denylist.Subject`)."""

TOKENS = 65_536
"""Verified tokens held; at about 3 KB each, 200 MB at the very most, and only where that many are live."""
PEERS = 8_192
"""Client certificates held parsed, by the text in which Envoy sends them."""
CONTEXTS = 16_384
"""Caller contexts held; each is of use for a second."""

SHED_FROM = 0.8
"""The saturation from which the lowest rank is shed; the highest is shed at 1.0, those between in equal steps."""


class Keys(Protocol):
    """The key sets of all issuers, refreshed in the background (`authz.refresh.KeyRefresher`)."""

    @property
    def trust(self) -> Mapping[str, Trusted]:
        """Each issuer and its keys, by its exact `iss`."""
        ...

    async def want(self, issuer_id: str, kid: str) -> bool:
        """Ask for an issuer's keys once more, within bounds; tells whether they changed."""
        ...


@dataclass(frozen=True, slots=True)
class FixedKeys:
    """Key sets that never change."""

    trust: Mapping[str, Trusted] = field(default_factory=dict)

    async def want(self, issuer_id: str, kid: str) -> bool:
        """There is nowhere to ask."""
        del issuer_id, kid
        return False


class Endpoints(Protocol):
    """The introspection endpoints, with what they said lately (`authz.introspect.Introspector`)."""

    def recall(self, endpoint_id: str, token: str, now: Instant) -> Claims | Deny | None:
        """Recall what was said of a token; None where the endpoint has to be asked."""
        ...

    async def ask(self, endpoint_id: str, token: str, *, lenient: bool) -> Claims | Deny:
        """Ask about a token; a lenient question takes an older answer where there is no other."""
        ...


class NoEndpoints:
    """Nobody who could be asked."""

    def recall(self, endpoint_id: str, token: str, now: Instant) -> Claims | Deny | None:
        """Nothing was ever said."""
        del endpoint_id, token, now
        return None

    async def ask(self, endpoint_id: str, token: str, *, lenient: bool) -> Claims | Deny:
        """There is nobody to answer."""
        del endpoint_id, token, lenient
        return Deny(Reason.IDENTITY_UNAVAILABLE)


@dataclass(slots=True)
class Live:
    """What changes while a snapshot stays: written by sidecar, read by every decision, shared by successive residents.

    `ring` signs the caller contexts. `keys` are those of issuers, `partners` those of consumers that sign for
    themselves. `denylist` is what the feed told and `filed` what files say; `heard` is when the feed last spoke.
    `proofs` and `assertions` are those that were used and are good once. `status` is what is known of revoked
    certificates. `saturation` is 0 (idle) to 1 (no room). `resting` are the ids of upstreams whose breaker is open.
    """

    ring: ContextRing
    keys: Keys = field(default_factory=FixedKeys)
    partners: Keys = field(default_factory=FixedKeys)
    endpoints: Endpoints = field(default_factory=NoEndpoints)
    denylist: Denylist = field(default_factory=Denylist)
    filed: Denylist = field(default_factory=Denylist)
    heard: Instant = 0
    api_keys: KeyTable = field(default_factory=index_keys)
    proofs: Replays = field(default_factory=Replays)
    assertions: Replays = field(default_factory=Replays)
    status: StatusBook | None = None
    saturation: float = 0.0
    resting: frozenset[str] = frozenset()


@dataclass(slots=True)
class Verified:
    """A token that held, and whom it stands for; kept by its exact text.

    `charges` are those of its requests, by route id, as far as they follow from the token alone.
    """

    claims: Claims
    caller: Caller
    consumer: Consumer | None
    tier: Tier | None
    marks: tuple[Mark, ...]
    charges: dict[str, Sequence[Charge]] = field(default_factory=dict)


class Resident:
    """One snapshot, ready to decide from. A new snapshot is a new Resident, so no cache outlives its policy."""

    __slots__ = (
        "contexts",
        "live",
        "organisations",
        "peers",
        "plans",
        "shed_at",
        "snapshot",
        "tokens",
        "trusts",
    )

    def __init__(self, snapshot: Snapshot, live: Live) -> None:
        """Parse the snapshot. Raises ValueError or KeyError, naming what is wrong, for one that cannot be used."""
        self.snapshot = snapshot
        self.live = live
        self.plans: dict[str, Plan] = draw_plans(snapshot)
        self.trusts: dict[str, Trust] = {
            plane.id: open_trust(plane.certificate) for plane in snapshot.planes.values() if plane.certificate
        }
        self.organisations = _by_organisation(snapshot.consumers.values())
        self.shed_at = _shed_points(snapshot.tiers)
        self.tokens: Recent[str, Verified] = Recent(TOKENS)
        self.peers: Recent[str, Certificates] = Recent(PEERS)
        self.contexts: Recent[tuple[str, str, str, str], tuple[int, str]] = Recent(CONTEXTS)


def _by_organisation(consumers: Iterable[Consumer]) -> dict[str, Consumer]:
    """Index consumers by the organisation of their certificates; one that two consumers share identifies neither."""
    index: dict[str, Consumer] = {}
    shared: set[str] = set()
    for consumer in consumers:
        for organisation in consumer.organisations:
            if index.setdefault(organisation, consumer) is not consumer:
                shared.add(organisation)
    return {organisation: consumer for organisation, consumer in index.items() if organisation not in shared}


def _shed_points(tiers: Mapping[str, Tier]) -> dict[str, float]:
    """Give each tier id the saturation from which its members are shed; "" stands for nobody known, the lowest rank."""
    ranks = sorted({tier.rank for tier in tiers.values()})
    step = (1.0 - SHED_FROM) / max(1, len(ranks) - 1)
    points = {tier.id: SHED_FROM + step * ranks.index(tier.rank) for tier in tiers.values()}
    points[""] = SHED_FROM
    return points
