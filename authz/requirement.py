"""What a route needs of a caller who is known: address, tier, scopes, roles, claims. 403: asking again is no use.

The reply says what is missing, which is no secret: it stands in the API's documentation.
"""

import ipaddress
from collections.abc import Iterable

from authz.evidence import Answer, Evidence
from authz.plan import Plan
from model.problem import Extension
from model.reason import TABLE, Reason
from model.verdict import Deny


def check_requirement(evidence: Evidence) -> Answer:
    """Check everything that the route demands; the first thing that is missing is the answer."""
    plan = evidence.plan
    if plan.networks and not _is_within(evidence.request.address, plan):
        return Deny(Reason.ADDRESS_REFUSED)
    if plan.tiers and evidence.caller.tier not in plan.tiers:
        return Deny(Reason.TIER_REFUSED)
    if not plan.scopes <= evidence.scopes:
        return _missing(Reason.SCOPE_MISSING, "required_scopes", plan.scopes - evidence.scopes, plan.scopes)
    if plan.roles and plan.roles.isdisjoint(evidence.roles):
        return Deny(Reason.ROLE_MISSING)
    if plan.psd2_roles and (evidence.identity is None or plan.psd2_roles.isdisjoint(evidence.identity.psd2_roles)):
        return _missing(Reason.PSD2_ROLE_MISSING, "required_roles", plan.psd2_roles, plan.psd2_roles)
    return _check_claims(evidence, plan)


def claim_values(value: object) -> frozenset[str]:
    """Read a claim as the set of texts that it can be said to hold: a list holds each of its elements."""
    if isinstance(value, bool):
        return frozenset(("true" if value else "false",))
    if isinstance(value, str | int):
        return frozenset((str(value),))
    if isinstance(value, list):
        return frozenset[str]().union(*(claim_values(item) for item in value if not isinstance(item, list)))
    return frozenset()


def _check_claims(evidence: Evidence, plan: Plan) -> Answer:
    members = evidence.claims.members if evidence.claims is not None else {}
    for name, accepted in plan.route.requirement.claims:
        if claim_values(members.get(name)).isdisjoint(accepted):
            return Deny(Reason.CLAIM_REFUSED, extensions={"claim": name})
    return None


def _is_within(address: str, plan: Plan) -> bool:
    """Whether the source address lies in one of the ranges; what is no address lies in none."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return any((mapped or parsed) in network for network in plan.networks)


def _missing(reason: Reason, member: str, missing: Iterable[str], required: Iterable[str]) -> Deny:
    detail = f"{TABLE[reason].detail[:-1]}: {' '.join(sorted(missing))}."
    extensions: dict[str, Extension] = {member: sorted(required)}
    return Deny(reason, detail, extensions=extensions)
