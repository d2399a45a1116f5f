"""What an introspection endpoint says about an opaque token (RFC 7662), read strictly. Pure.

Inactive is a verdict about the token; anything that is not a clear answer is a fault of the endpoint, and the two are
never mixed: the first is 401, the second 503.
"""

from authz.strict import Malformed, read_object
from authz.token import Claims, judge_members
from model.instant import Instant
from model.reason import Reason
from model.snapshot import Introspection, Issuer
from model.verdict import Deny


class AnswerInvalid(Exception):
    """The endpoint answered with something that is no introspection response."""


def read_answer(body: bytes, settings: Introspection, now: Instant) -> Claims | Deny:
    """Read an answer of status 200. Raises AnswerInvalid where `active` is not plainly true or false.

    `active` must be the JSON literal: "true" and 1 are what a broken server or a proxy makes of it (pitfall 52).
    The claims end with the token, or where the answer names no end, when it can no longer serve in the cache.
    """
    try:
        members = read_object(body)
    except Malformed as error:
        raise AnswerInvalid("not a JSON object") from error
    active = members.get("active")
    if not isinstance(active, bool):
        raise AnswerInvalid("`active` is not true or false")
    if not active:
        return Deny(Reason.TOKEN_INACTIVE)
    end = now + settings.cache + settings.max_stale
    if members.get("exp") is None:
        members["exp"] = -(-end // 1_000_000_000)
    return judge_members(members, issuer_of(settings), now)


def issuer_of(settings: Introspection) -> Issuer:
    """See the endpoint as an issuer: the one who vouches for the claims, under the same rules as a token's."""
    return Issuer(
        id=settings.id,
        issuer=settings.id,
        jwks="",
        audiences=settings.audiences,
        tier=settings.tier,
    )
