"""Whose bucket: the value of each dimension of a limit, as parts of a key.

Every value begins with its dimension and is a part, or parts, of its own; nothing is joined, so no two keys can collide
(bug report R-06), and no part is a secret (R-07). A caller who has no value for a dimension counts by the next best
one, down to the address: an empty value would put all strangers into one bucket, or none.
"""

import hashlib
import ipaddress
from collections.abc import Callable
from functools import cache, lru_cache

from authz.evidence import Evidence
from model.snapshot import Dimension

SITE_PREFIX = 64
"""Bits of an IPv6 address that count: a site holds a whole /64 and can change the rest at will (RFC 6177)."""


def name_bucket(evidence: Evidence, per: tuple[Dimension, ...]) -> tuple[str, ...]:
    """Name the bucket of a caller: the parts of each dimension, in order."""
    parts: tuple[str, ...] = ()
    for value in _values(per):
        parts += value(evidence)
    return parts


def name_shard(evidence: Evidence, per: tuple[Dimension, ...]) -> str:
    """Name the shard of a bucket. It must follow from the bucket, or one bucket would live on two shards.

    A registered consumer's tenant follows from its client id, so the buckets of both lie together and one round trip
    reaches them; a stranger's tenant does not.
    """
    dimension = _shard_dimension(per)
    if dimension is None:
        return evidence.plan.route.id
    name = _shard_value(evidence, dimension)
    return name or evidence.caller.client_id or site_of(evidence.request.address)


@cache
def _values(per: tuple[Dimension, ...]) -> tuple[Callable[[Evidence], tuple[str, ...]], ...]:
    return tuple(_VALUES[dimension] for dimension in per)


@cache
def _shard_dimension(per: tuple[Dimension, ...]) -> Dimension | None:
    return next((dimension for dimension in _SHARDS if dimension in per), None)


def site_of(address: str) -> str:
    """Cut a source address down to what identifies its site: an IPv4 address, or the /64 of an IPv6 one.

    Text that is no address (a Unix socket peer) stands for itself.
    """
    return address if ":" not in address else _site_of_six(address)


@lru_cache(maxsize=4096)
def _site_of_six(address: str) -> str:
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, SITE_PREFIX), strict=False))


def _shard_value(evidence: Evidence, dimension: Dimension) -> str:
    caller, consumer = evidence.caller, evidence.consumer
    if dimension is Dimension.CLIENT or dimension is Dimension.CREDENTIAL:
        return consumer.tenant if consumer is not None else ""
    if dimension is Dimension.TENANT:
        return caller.tenant
    if dimension is Dimension.ORGANISATION:
        return caller.organisation
    return caller.subject if dimension is Dimension.SUBJECT else site_of(evidence.request.address)


def _of_client(evidence: Evidence) -> tuple[str, ...]:
    """Name the client; strangers are told apart by issuer, and who has no client id by subject or address."""
    client = evidence.caller.client_id
    if not client:
        return _of_subject(evidence) if evidence.caller.subject else _of_address(evidence)
    if evidence.consumer is None and evidence.claims is not None:
        return ("client", evidence.claims.issuer_id, client)
    return ("client", client)


def _of_subject(evidence: Evidence) -> tuple[str, ...]:
    subject = evidence.caller.subject
    if not subject:
        return _of_client(evidence)
    return ("subject", evidence.claims.issuer_id if evidence.claims is not None else "", subject)


def _of_credential(evidence: Evidence) -> tuple[str, ...]:
    """Name the credential by its own name, else by a digest of its text, never by the text itself."""
    client = _of_client(evidence)
    if evidence.serial:
        return ("credential", *client, evidence.serial)
    text = evidence.credential.text if evidence.credential is not None else ""
    return ("credential", *client, hashlib.sha256(text.encode()).hexdigest()) if text else client


def _of_tenant(evidence: Evidence) -> tuple[str, ...]:
    tenant = evidence.caller.tenant
    return ("tenant", tenant) if tenant else _of_client(evidence)


def _of_organisation(evidence: Evidence) -> tuple[str, ...]:
    organisation = evidence.caller.organisation
    return ("organisation", organisation) if organisation else _of_client(evidence)


def _of_address(evidence: Evidence) -> tuple[str, ...]:
    return ("address", site_of(evidence.request.address))


def _of_route(evidence: Evidence) -> tuple[str, ...]:
    return ("route", evidence.plan.route.id)


_VALUES: dict[Dimension, Callable[[Evidence], tuple[str, ...]]] = {
    Dimension.CREDENTIAL: _of_credential,
    Dimension.CLIENT: _of_client,
    Dimension.TENANT: _of_tenant,
    Dimension.SUBJECT: _of_subject,
    Dimension.ROUTE: _of_route,
    Dimension.ADDRESS: _of_address,
    Dimension.ORGANISATION: _of_organisation,
}

# Which dimension picks the shard where there are several: every one of them is part of the bucket's name.
_SHARDS = (
    Dimension.TENANT,
    Dimension.ORGANISATION,
    Dimension.SUBJECT,
    Dimension.CLIENT,
    Dimension.CREDENTIAL,
    Dimension.ADDRESS,
)
