"""Who is believed and what they may spend: issuers, introspection endpoints, tiers and consumers."""

import datetime as dt
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from model.instant import DAY, MINUTE, SECOND
from policy.scalar import Duration, Name, Secret
from policy.shape import LimitEntry, Quoted, Shape, Text, Whole

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _parse_instant(value: object) -> int:
    words = "a date such as 2027-01-31, or an instant with an offset such as 2027-01-31T12:00:00Z"
    try:
        instant = dt.datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        instant = None
    if instant is None or (instant.tzinfo is None and isinstance(value, str) and len(value) > 10):
        raise PydanticCustomError("expected", "{words}", {"words": words})
    since = (instant if instant.tzinfo else instant.replace(tzinfo=dt.UTC)) - _EPOCH
    return (since.days * 86400 + since.seconds) * SECOND + since.microseconds * 1000


When = Annotated[int, BeforeValidator(_parse_instant), WithJsonSchema({"type": "string", "format": "date-time"})]
"""An instant; a date alone is its first moment in UTC."""


class Issuer(Shape):
    """An issuer of tokens and how far it is believed (see `model.snapshot.Issuer`)."""

    issuer: Text
    jwks: Text
    audiences: Annotated[tuple[Text, ...], Field(min_length=1)]
    algorithms: Annotated[tuple[Text, ...], Field(min_length=1)] = ("EdDSA", "Ed25519", "ES256", "RS256", "PS256")
    types: tuple[str, ...] = ("at+jwt", "jwt", "")
    leeway: Duration = 10 * SECOND
    refresh: Duration = 5 * MINUTE
    cooldown: Duration = 30 * SECOND
    max_stale: Duration = DAY
    max_lifetime: Duration | None = None
    required_claims: tuple[Text, ...] = ()
    client_claim: Text = "client_id"
    scope_claim: Text = "scope"
    roles_claim: Text = "roles"
    tenant_claim: str = ""
    tier_claim: str = ""
    tier: Name | None = None


class Introspection(Shape):
    """An RFC 7662 endpoint for opaque tokens. `secret` is `env:NAME` or `file:PATH`, never the secret itself."""

    endpoint: Text
    client_id: Text
    secret: Secret
    audiences: tuple[Text, ...] = ()
    cache: Duration = 30 * SECOND
    negative_cache: Duration = 5 * SECOND
    max_stale: Duration = 5 * MINUTE
    tier: Name | None = None


class Tier(Shape):
    """A plan. Members of lower `rank` are shed first when the gateway is saturated."""

    rank: Whole = 0
    limits: dict[Name, LimitEntry] = Field(default_factory=dict)


class Override(Shape):
    """Another rate for one limit of a consumer's tier, `since` an instant and `until` another."""

    limit: Name
    rate: Quoted
    since: When | None = None
    until: When | None = None


class Assertion(Shape):
    """How a consumer signs for itself, and what it may do then (see `model.snapshot.Assertion`)."""

    jwks: Text
    algorithms: Annotated[tuple[Text, ...], Field(min_length=1)] = ("EdDSA", "Ed25519", "ES256", "PS256")
    scopes: tuple[Text, ...] = ()
    roles: tuple[Text, ...] = ()


class Consumer(Shape):
    """A registered client, by its client id. `organisations` bind it to certificates with these identifiers."""

    tier: Name
    tenant: str = ""
    organisations: tuple[Text, ...] = ()
    overrides: tuple[Override, ...] = ()
    assertion: Assertion | None = None
