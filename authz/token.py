"""Whether a JWT access token holds: issuer, algorithm, type, key, signature, then its claims.

What costs nothing is judged first, but no claim except `iss` is judged before the signature holds, so that refusals
tell a forger nothing about what would have passed. RFC 7515, 7519, 8725 and, for `at+jwt`, 9068. Pure: the time is an
argument and the keys are resident; a broken token is a value, and no input raises.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from authz.keyset import Key, KeySet
from authz.strict import Compact, Malformed, decode_base64url, read_compact, read_object
from model.instant import SECOND, Instant
from model.reason import TABLE, Reason
from model.snapshot import Issuer
from model.verdict import Deny

# 9999-12-31T23:59:59Z in seconds: a later date is a mistake of units or an attack on arithmetic.
_LATEST = 253_402_300_799
# RFC 9068 section 2.2.
_ACCESS_TOKEN_CLAIMS = ("iss", "exp", "aud", "sub", "client_id", "iat", "jti")
# Members that OpenID Connect Core sections 2, 3.1.3.6 and 3.3.2.11 put into ID tokens.
_ID_TOKEN_CLAIMS = frozenset(("nonce", "at_hash", "c_hash", "s_hash"))
# RFC 8705 section 3.1 and RFC 9449 section 6.1.
_CONFIRMATIONS = frozenset(("x5t#S256", "jkt"))
_CONFIRMATION_LENGTH = 43
"""Characters of a SHA-256 digest in base64url."""


@dataclass(frozen=True, slots=True)
class Trusted:
    """An issuer and its keys. `keys` is None while none were ever loaded; they may be used before `until`."""

    issuer: Issuer
    keys: KeySet | None
    until: Instant


@dataclass(slots=True)
class Claims:
    """What a token that holds says about its caller; "" and None where it says nothing. Nobody changes them.

    Times are in nanoseconds. `kid` is that of the key that verified the token, also where the token named none, so that
    a denied key stays denied. `confirmation` is `cnf`: "x5t#S256" and "jkt" at most. `thumbprint` names the key that
    verified it (RFC 7638): a cached verdict stands only while the issuer's key set still holds that key. `type` is
    the `typ` without "application/". `members` is the whole payload.
    """

    issuer_id: str
    issuer: str
    subject: str
    client_id: str
    scopes: frozenset[str]
    roles: frozenset[str]
    tenant: str
    tier: str
    jti: str
    kid: str
    type: str
    issued: Instant | None
    not_before: Instant | None
    expires: Instant
    confirmation: Mapping[str, str] = field(default_factory=dict)
    thumbprint: str = ""
    members: Mapping[str, object] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class UnknownKey(Deny):
    """No key of the issuer may have signed this token; one fetched now might. `kid` is "" where the token has none."""

    issuer_id: str = ""
    kid: str = ""


class _Refused(Exception):
    """Carries a verdict out of nested reads."""

    def __init__(self, reason: Reason, claim: str) -> None:
        super().__init__(claim)
        self.deny = Deny(reason, f"{TABLE[reason].detail.removesuffix('.')}: {claim}.")


def verify_token(text: str, trust: Mapping[str, Trusted], now: Instant) -> Claims | Deny:
    """Verify a compact JWT against the issuers that `trust` names by their exact `iss`.

    Returns the claims or the reason of refusal; UnknownKey, a Deny, where a refetch of the keys may change the answer.
    """
    compact = read_compact(text)
    if isinstance(compact, Deny):
        return compact
    try:
        members = read_object(compact.payload)
    except Malformed:
        return Deny(Reason.TOKEN_MALFORMED)
    name = members.get("iss")
    trusted = trust.get(name) if isinstance(name, str) else None
    if trusted is None:
        return Deny(Reason.TOKEN_ISSUER)
    key = _find_key(compact, trusted, now)
    if isinstance(key, Deny):
        return key
    try:
        return _judge_claims(members, compact, trusted.issuer, key, now)
    except _Refused as refused:
        return refused.deny


def _find_key(compact: Compact, trusted: Trusted, now: Instant) -> Key | Deny:
    """Find the key under which the signature holds."""
    issuer = trusted.issuer
    if compact.algorithm not in issuer.algorithms:
        return Deny(Reason.TOKEN_ALGORITHM)
    if compact.type not in issuer.types:
        return Deny(Reason.TOKEN_TYPE)
    if trusted.keys is None or now >= trusted.until:
        return Deny(Reason.IDENTITY_UNAVAILABLE)
    keys = trusted.keys.select(compact.kid, compact.algorithm)
    if keys is None:
        return UnknownKey(Reason.TOKEN_KEY_UNKNOWN, issuer_id=issuer.id, kid=compact.kid or "")
    for key in keys:
        if key.verifiers[compact.algorithm](compact.signed, compact.signature):
            return key
    if compact.kid is None:
        return UnknownKey(Reason.TOKEN_SIGNATURE, issuer_id=issuer.id)
    return Deny(Reason.TOKEN_SIGNATURE if keys else Reason.TOKEN_ALGORITHM)


def _judge_claims(
    members: dict[str, object], compact: Compact, issuer: Issuer, key: Key, now: Instant
) -> Claims | Deny:
    """Judge the claims of a token whose signature holds."""
    _require_claims(members, compact.type, issuer)
    if compact.type != "at+jwt" and _is_foreign(members):
        return Deny(Reason.TOKEN_TYPE)
    claims = _read_claims(members, issuer, compact, key)
    return _judge_audience(members, issuer) or judge_times(claims, issuer, now) or claims


def judge_members(members: dict[str, object], issuer: Issuer, now: Instant) -> Claims | Deny:
    """Judge the members of an introspection answer (RFC 7662 section 2.2) as the claims of a token would be.

    The endpoint vouches for them, so there is no key and no signature. `aud` counts only where the issuer names
    audiences, and `exp` is optional: the caller gives those that lack one an end of its own. A refresh token is active
    too (RFC 7662 section 2.2 asks only whether it was issued), and must not pass for the access token that it can buy.
    """
    if _calls_itself_other(members):
        return Deny(Reason.TOKEN_TYPE)
    try:
        claims = _read_claims(members, issuer)
        if not issuer.audiences:
            return judge_times(claims, issuer, now) or claims
        if members.get("aud") is None:
            return Deny(Reason.TOKEN_AUDIENCE)
        return _judge_audience(members, issuer) or judge_times(claims, issuer, now) or claims
    except _Refused as refused:
        return refused.deny


def _read_claims(
    members: dict[str, object], issuer: Issuer, compact: Compact | None = None, key: Key | None = None
) -> Claims:
    return Claims(
        issuer_id=issuer.id,
        issuer=issuer.issuer,
        subject=_read_text(members, "sub"),
        client_id=_read_text(members, issuer.client_claim),
        scopes=_read_names(members, issuer.scope_claim),
        roles=_read_names(members, issuer.roles_claim),
        tenant=_read_text(members, issuer.tenant_claim),
        tier=_read_text(members, issuer.tier_claim),
        jti=_read_text(members, "jti"),
        kid=(key.kid or "") if key is not None else "",
        type=compact.type if compact is not None else "",
        issued=_read_instant(members, "iat"),
        not_before=_read_instant(members, "nbf"),
        expires=_read_instant(members, "exp") or 0,
        confirmation=_read_confirmation(members),
        thumbprint=key.thumbprint if key is not None else "",
        members=members,
    )


def judge_times(claims: Claims, issuer: Issuer, now: Instant) -> Deny | None:
    """Judge exp, nbf, iat and the lifetime, all under one leeway (RFC 7519 sections 4.1.4 to 4.1.6).

    Separate, because a cached token has to be judged against the clock again on every request.
    """
    if claims.expires + issuer.leeway <= now:
        return Deny(Reason.TOKEN_EXPIRED)
    latest = now + issuer.leeway
    if (claims.not_before or 0) > latest or (claims.issued or 0) > latest:
        return Deny(Reason.TOKEN_NOT_YET_VALID)
    start = now if claims.issued is None else claims.issued
    if issuer.max_lifetime is not None and claims.expires - start > issuer.max_lifetime:
        return Deny(Reason.TOKEN_LIFETIME)
    return None


def _require_claims(members: Mapping[str, object], kind: str, issuer: Issuer) -> None:
    required = _ACCESS_TOKEN_CLAIMS if kind == "at+jwt" else ("exp", "aud")
    for name in (*required, *issuer.required_claims):
        if members.get(name) is None:
            missing = name not in members
            raise _Refused(Reason.TOKEN_CLAIM_MISSING if missing else Reason.TOKEN_CLAIM_MALFORMED, name)


def _is_foreign(members: Mapping[str, object]) -> bool:
    """Tell an ID token, a refresh token or a logout token that says only "JWT", or nothing, of its type.

    By the members that OpenID Connect gives them (`events` and no audience of ours is the logout token's) and by the
    two self-descriptions in wide use: `typ` in the payload, and `token_use`.
    """
    return not _ID_TOKEN_CLAIMS.isdisjoint(members) or "events" in members or _calls_itself_other(members)


def _calls_itself_other(members: Mapping[str, object]) -> bool:
    """Tell a token that says of itself that it is none for access: as Keycloak in `typ`, or in `token_use`."""
    return members.get("typ") in ("ID", "Refresh", "Offline", "Logout") or members.get("token_use") in (
        "id",
        "id_token",
        "refresh",
        "refresh_token",
    )


def _judge_audience(members: Mapping[str, object], issuer: Issuer) -> Deny | None:
    """Compare `aud`, a string or an array of strings, letter by letter (RFC 7519 section 4.1.3)."""
    audience = members["aud"]
    named = audience if isinstance(audience, list) else [audience]
    if not all(isinstance(name, str) for name in named):
        raise _Refused(Reason.TOKEN_CLAIM_MALFORMED, "aud")
    return Deny(Reason.TOKEN_AUDIENCE) if frozenset(named).isdisjoint(issuer.audiences) else None


def _read_instant(members: Mapping[str, object], name: str) -> Instant | None:
    """Read a NumericDate, which may have a fraction (RFC 7519 section 2), as nanoseconds."""
    if name not in members:
        return None
    value = members[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST:
        raise _Refused(Reason.TOKEN_CLAIM_MALFORMED, name)
    return int(value * SECOND)


def _read_text(members: Mapping[str, object], name: str) -> str:
    """Read an optional string claim; "" where it is absent or the name is "".

    Control characters are refused: these strings become cache keys, header values and log fields.
    """
    value = _find_claim(members, name)
    if value is None:
        return ""
    if not isinstance(value, str) or _has_controls(value):
        raise _Refused(Reason.TOKEN_CLAIM_MALFORMED, name)
    return value


def _read_names(members: Mapping[str, object], name: str) -> frozenset[str]:
    """Read a set of names: a string with spaces (RFC 8693 section 4.2) or, as many issuers write it, an array."""
    value = _find_claim(members, name)
    if value is None:
        return frozenset()
    names = value.split(" ") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(item, str) and not _has_controls(item) for item in names):
        raise _Refused(Reason.TOKEN_CLAIM_MALFORMED, name)
    return frozenset(names) - {""}


def _find_claim(members: Mapping[str, object], name: str) -> object:
    """Find a claim by its whole name, else as a path: "realm_access.roles" is roles inside realm_access."""
    if name in members or "." not in name:
        return members.get(name) if name else None
    value: object = members
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _has_controls(text: str) -> bool:
    return not text.isprintable() and any(letter < " " or "\x7f" <= letter <= "\x9f" for letter in text)


def _read_confirmation(members: Mapping[str, object]) -> Mapping[str, str]:
    """Read `cnf` (RFC 7800 section 3.1). A member that is not understood is a binding that would go unchecked."""
    if "cnf" not in members:
        return {}
    confirmation = members["cnf"]
    if not isinstance(confirmation, dict) or not confirmation:
        raise _Refused(Reason.TOKEN_CLAIM_MALFORMED, "cnf")
    if not confirmation.keys() <= _CONFIRMATIONS:
        raise _Refused(Reason.BINDING_UNSUPPORTED, "cnf")
    for digest in confirmation.values():
        if not isinstance(digest, str) or len(digest) != _CONFIRMATION_LENGTH or not _is_base64url(digest):
            raise _Refused(Reason.TOKEN_CLAIM_MALFORMED, "cnf")
    return confirmation


def _is_base64url(text: str) -> bool:
    try:
        decode_base64url(text.encode("ascii"))
    except ValueError:
        return False
    return True
