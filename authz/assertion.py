"""Assertions: JWTs that a partner signs with a key of its own (RFC 7523 section 3), each for one use.

`iss` and `sub` are the client id, `aud` is the origin of the plane, `jti` is required and good once, and none lives for
more than five minutes. What a partner may do stands in its registration; what it says of itself grants nothing.
"""

from collections.abc import Iterable
from dataclasses import replace

from authz.evidence import Answer, Evidence, WantKey
from authz.proof import JTI_LIMIT, ReplaysFull
from authz.standing import find_standing, note_verified
from authz.token import Claims, UnknownKey, verify_token
from model.instant import MINUTE
from model.reason import Reason
from model.snapshot import Assertion, Issuer, Kind, Snapshot
from model.verdict import Deny

LIFETIME = 5 * MINUTE
_TYPES = ("jwt", "client-authentication+jwt", "")


def partner_issuers(snapshot: Snapshot) -> Iterable[Issuer]:
    """See every consumer that signs for itself as an issuer of tokens about itself."""
    planes = snapshot.planes.values()
    audiences = tuple(dict.fromkeys(plane.origin for plane in planes if plane.origin))
    for consumer in snapshot.consumers.values():
        if consumer.assertion is not None:
            yield _issuer_of(consumer.client_id, consumer.assertion, audiences)


def _issuer_of(client_id: str, assertion: Assertion, audiences: tuple[str, ...]) -> Issuer:
    return Issuer(
        id=client_id,
        issuer=client_id,
        jwks=assertion.jwks,
        audiences=audiences,
        algorithms=assertion.algorithms,
        types=_TYPES,
        max_lifetime=LIFETIME,
        required_claims=("sub", "jti"),
        client_claim="sub",
        scope_claim="",
        roles_claim="",
    )


def identify_assertion(evidence: Evidence) -> Answer:
    """Verify an assertion and stand for the partner that signed it."""
    claims = _verify(evidence)
    if isinstance(claims, UnknownKey):
        return WantKey(_verify_again, evidence.resident.live.partners, claims.issuer_id, claims.kid)
    return claims if isinstance(claims, Deny) else _accept(evidence, claims)


def _verify_again(evidence: Evidence, changed: bool) -> Answer:
    claims = _verify(evidence) if changed else Deny(Reason.TOKEN_KEY_UNKNOWN)
    if isinstance(claims, UnknownKey):
        return Deny(claims.reason)
    return claims if isinstance(claims, Deny) else _accept(evidence, claims)


def _verify(evidence: Evidence) -> Claims | Deny:
    text = evidence.credential.text if evidence.credential is not None else ""
    return verify_token(text, evidence.resident.live.partners.trust, evidence.now)


def _accept(evidence: Evidence, claims: Claims) -> Answer:
    """Hold what is good against who may say so: the partner, about itself, to this plane, for the first time."""
    consumer = evidence.resident.snapshot.consumers.get(claims.issuer)
    assertion = consumer.assertion if consumer is not None else None
    if assertion is None or claims.subject != claims.issuer:
        return Deny(Reason.TOKEN_ISSUER)
    audience = claims.members.get("aud")
    if evidence.plan.plane.origin not in (audience if isinstance(audience, list) else [audience]):
        return Deny(Reason.TOKEN_AUDIENCE)
    refusal = _use_once(evidence, claims)
    if refusal is not None:
        return refusal
    granted = replace(
        claims,
        scopes=frozenset(assertion.scopes),
        roles=frozenset(assertion.roles),
        members={},
    )
    verified = find_standing(evidence, granted, Kind.ASSERTION, None)
    return verified if isinstance(verified, Deny) else note_verified(evidence, verified)


def _use_once(evidence: Evidence, claims: Claims) -> Deny | None:
    if not 0 < len(claims.jti) <= JTI_LIMIT:
        return Deny(Reason.TOKEN_CLAIM_MALFORMED)
    leeway = evidence.resident.live.partners.trust[claims.issuer].issuer.leeway
    try:
        first = evidence.resident.live.assertions.first_use(
            claims.issuer, claims.jti, claims.expires + leeway, evidence.now
        )
    except ReplaysFull:
        return Deny(Reason.OVERLOADED)
    return None if first else Deny(Reason.TOKEN_REPLAYED)
