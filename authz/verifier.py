"""For upstreams: whether a request came through the gateway, and on whose behalf.

An upstream refuses with 403 what comes without a valid caller context. This module stands alone: it needs PyJWT and
cryptography, and nothing else of wardgate is touched when it is used.

    verifier = ContextVerifier(fetch_jwks, audience="account-ledger", issuer="wardgate", clock=time.time_ns)
    caller = verifier.verify(request.headers["x-verified-caller-context"])
"""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import jwt

TYPE = "wardgate-context+jwt"
MAX_SIZE = 4096
SECOND = 1_000_000_000


class ContextRefused(Exception):
    """The context does not hold; the text says why, for the upstream's log and not for the client."""


@dataclass(frozen=True, slots=True)
class CallerContext:
    """Who calls, as the gateway verified it; "" and () where it says nothing. `members` is the whole payload."""

    client_id: str
    subject: str
    tier: str
    tenant: str
    kind: str
    scopes: tuple[str, ...]
    roles: tuple[str, ...]
    psd2_roles: tuple[str, ...]
    organisation: str
    route: str
    request_id: str
    members: Mapping[str, Any]


class ContextVerifier:
    """Verifies caller contexts against the gateway's published keys.

    `jwks_source` returns the JWK set as an object; it is called at first need, and again for an unknown key, at most
    once per `cooldown`. `audience` is this upstream's name. `issuer` and every time are checked exactly but for
    `leeway`. `max_age` refuses a context that was minted longer ago, whatever its own `exp` grants: a stolen one can be
    replayed for that long at most. `clock` gives, and all durations are, nanoseconds.
    """

    def __init__(
        self,
        jwks_source: Callable[[], Mapping[str, Any]],
        *,
        audience: str,
        issuer: str,
        clock: Callable[[], int],
        leeway: int = 2 * SECOND,
        max_age: int = 60 * SECOND,
        cooldown: int = 10 * SECOND,
    ) -> None:
        self._source = jwks_source
        self._audience = audience
        self._issuer = issuer
        self._clock = clock
        self._leeway = leeway
        self._max_age = max_age
        self._cooldown = cooldown
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched: int | None = None

    def verify(self, text: str | None, *, method: str = "", path: str = "", bound: bool = False) -> CallerContext:
        """Verify one context and return the caller. Raises ContextRefused.

        A context that is bound to a request is compared with `method` and `path` (with query, as the client sent them
        to the gateway); with `bound`, one that is not bound to a request is refused.
        """
        if not text or len(text) > MAX_SIZE or not text.isascii():
            raise ContextRefused("no context, or one that is too large")
        members = self._open(text)
        self._check_times(members)
        if bound or "path_sha256" in members:
            _check_request(members, method, path)
        return _read_caller(members)

    def _open(self, text: str) -> dict[str, Any]:
        """Check form, type, key and signature, then issuer and audience."""
        try:
            header = jwt.get_unverified_header(text)
            if header.get("typ") != TYPE or header.get("alg") != "EdDSA":
                raise ContextRefused("not a caller context")
            members: dict[str, Any] = jwt.decode(
                text,
                self._find_key(header.get("kid")),
                algorithms=["EdDSA"],
                audience=self._audience,
                issuer=self._issuer,
                options={"require": ["exp", "iat"], "verify_exp": False, "verify_iat": False, "strict_aud": True},
            )
        except jwt.PyJWTError as error:
            raise ContextRefused(f"the context does not verify ({type(error).__name__})") from error
        return members

    def _find_key(self, kid: object) -> jwt.PyJWK:
        key = self._keys.get(kid) if isinstance(kid, str) else None
        if key is None and isinstance(kid, str) and self._refresh():
            key = self._keys.get(kid)
        if key is None:
            raise ContextRefused("signed by an unknown key")
        return key

    def _refresh(self) -> bool:
        """Read the set again, unless that was done within the cool-down; a set that cannot be read changes nothing."""
        now = self._clock()
        if self._fetched is not None and now - self._fetched < self._cooldown:
            return False
        self._fetched = now
        try:
            self._keys = _read_keys(self._source())
        except Exception as error:
            raise ContextRefused(f"the gateway's keys cannot be read ({type(error).__name__})") from error
        return True

    def _check_times(self, members: Mapping[str, Any]) -> None:
        now, issued, expires = self._clock(), members["iat"], members["exp"]
        if type(issued) is not int or type(expires) is not int:
            raise ContextRefused("times are whole seconds")
        if expires * SECOND + self._leeway <= now:
            raise ContextRefused("expired")
        if issued * SECOND > now + self._leeway:
            raise ContextRefused("from the future")
        if now - issued * SECOND > self._max_age + self._leeway:
            raise ContextRefused("too old")


def _read_keys(document: Mapping[str, Any]) -> dict[str, jwt.PyJWK]:
    """Read the Ed25519 keys of a set by their kid; what is none is somebody else's (RFC 7517 section 5).

    One key that cannot be read leaves the others usable.
    """
    keys = {}
    for entry in document["keys"]:
        if isinstance(entry, Mapping) and entry.get("crv") == "Ed25519" and isinstance(entry.get("kid"), str):
            with suppress(jwt.PyJWTError, ValueError, TypeError):
                keys[entry["kid"]] = jwt.PyJWK(dict(entry), algorithm="EdDSA")
    return keys


def _check_request(members: Mapping[str, Any], method: str, path: str) -> None:
    digest = urlsafe_b64encode(hashlib.sha256(path.encode("utf-8", "surrogatepass")).digest()).rstrip(b"=").decode()
    if members.get("method") != method or members.get("path_sha256") != digest:
        raise ContextRefused("minted for another request")


def _read_caller(members: Mapping[str, Any]) -> CallerContext:
    def text(name: str) -> str:
        value = members.get(name, "")
        return value if isinstance(value, str) else ""

    def names(name: str) -> tuple[str, ...]:
        value = members.get(name, ())
        return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()

    return CallerContext(
        client_id=text("client_id"),
        subject=text("sub"),
        tier=text("tier"),
        tenant=text("tenant"),
        kind=text("kind"),
        scopes=names("scopes"),
        roles=names("roles"),
        psd2_roles=names("psd2_roles"),
        organisation=text("organisation"),
        route=text("route"),
        request_id=text("request_id"),
        members=members,
    )
