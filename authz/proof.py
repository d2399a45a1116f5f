"""DPoP proofs (RFC 9449): the sender shows that it holds the key that its token is bound to, for this one request.

Pure: the origin comes from the document and never from the Host header, the time is an argument, and what was seen
before is a value that is handed in.
"""

import hashlib
import hmac
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from authz.keyset import ALGORITHMS, Key, KeyUnusable, read_key
from authz.strict import Compact, Malformed, read_compact, read_object
from model.instant import SECOND, Duration, Instant
from model.reason import Reason
from model.verdict import Deny

WINDOW: Duration = 60 * SECOND
"""How far a proof's `iat` may lie from now, either way (RFC 9449 section 11.1)."""
REMEMBERED = 262_144
"""Proofs that are remembered at one time, of all callers together."""
JTI_LIMIT = 128
"""Characters of a `jti`."""
PROOF_ALGORITHMS = tuple(sorted(ALGORITHMS - {"RS256", "RS384", "RS512"}))
"""What a proof may be signed with: RSASSA-PKCS1-v1_5 is left out, as FAPI 2.0 section 5.4 does."""

_PORTS = {"https": 443, "http": 80}
# RFC 3986 section 2.3: only these mean the same escaped and unescaped.
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class ReplaysFull(Exception):
    """More live proofs than can be remembered: whether a new one is a replay can no longer be told."""


@dataclass(slots=True)
class Replays:
    """The proofs of the last window, by key and `jti`; one process's memory (docs/security.md says what that spans)."""

    capacity: int = REMEMBERED
    _seen: dict[tuple[str, str], Instant] = field(default_factory=dict)

    def first_use(self, thumbprint: str, jti: str, until: Instant, now: Instant) -> bool:
        """Note a proof; False where it was seen before. Raises ReplaysFull where there is no room to note it."""
        key = (thumbprint, jti)
        known = self._seen.get(key)
        if known is not None and known >= now:
            return False
        if len(self._seen) >= self.capacity:
            self._forget(now)
        self._seen.pop(key, None)
        self._seen[key] = until
        return True

    def _forget(self, now: Instant) -> None:
        # Entries stand in the order of their arrival, and each is kept for a window or two: the oldest expire first,
        # give or take. Where the oldest is live, a full walk decides.
        stale = [key for key, until in self._seen.items() if until < now]
        for key in stale:
            del self._seen[key]
        if not stale:
            raise ReplaysFull(f"{self.capacity} proofs within one window")


@dataclass(frozen=True, slots=True)
class Demand:
    """What a proof has to be for.

    `origin` is the plane's external scheme and authority ("https://api.example"), `path` that of the request, `token`
    the access token beside the proof, `thumbprint` (RFC 7638) that of the key which the token is bound to.
    """

    method: str
    origin: str
    path: str
    token: str = field(repr=False)
    thumbprint: str


def judge_proof(text: str, demand: Demand, replays: Replays, now: Instant) -> Deny | None:
    """Check a proof by RFC 9449 section 4.3, its replay last. None where it holds. Raises ReplaysFull."""
    compact = read_compact(text, embedded=True)
    if isinstance(compact, Deny):
        return Deny(Reason.PROOF_INVALID)
    try:
        members = read_object(compact.payload)
    except Malformed:
        return Deny(Reason.PROOF_INVALID)
    key = _proving_key(compact)
    if key is None or not _fits_demand(members, demand, now):
        return Deny(Reason.PROOF_INVALID)
    if not hmac.compare_digest(key.thumbprint.encode(), demand.thumbprint.encode()):
        return Deny(Reason.BINDING_MISMATCH)
    if not key.verifiers[compact.algorithm](compact.signed, compact.signature):
        return Deny(Reason.PROOF_INVALID)
    if not replays.first_use(key.thumbprint, str(members["jti"]), now + 2 * WINDOW, now):
        return Deny(Reason.PROOF_REPLAYED)
    return None


def normalise_uri(uri: str) -> str:
    """Spell an http URI in one way, without query and fragment (RFC 3986 section 6.2.2 and 6.2.3).

    Scheme and host in lower case, no default port, no dot segments, percent-escapes only where they are needed and in
    upper case. Raises ValueError for what is no absolute http URI.
    """
    if not uri.isascii() or not uri.isprintable() or " " in uri:
        # urlsplit takes line breaks and tabs out in silence, and what differs in them would be one URI.
        raise ValueError("a character that no URI has")
    parts = urlsplit(uri)
    if parts.scheme not in _PORTS or not parts.hostname or parts.username is not None:
        raise ValueError("not an absolute http URI")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = "" if parts.port in (None, _PORTS[parts.scheme]) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{_normalise_path(parts.path)}"


def hash_token(token: str) -> str:
    """Compute `ath`: base64url SHA-256 of the token's ASCII text (RFC 9449 section 4.2)."""
    return urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()


def _proving_key(compact: Compact) -> Key | None:
    """Read the public key that the proof brings; None where it may not sign this proof."""
    if compact.type != "dpop+jwt" or compact.algorithm not in PROOF_ALGORITHMS:
        return None
    try:
        key = read_key(compact.header.get("jwk"))
    except KeyUnusable:
        return None
    return key if compact.algorithm in key.verifiers else None


def _fits_demand(members: dict[str, object], demand: Demand, now: Instant) -> bool:
    jti, issued, uri = members.get("jti"), members.get("iat"), members.get("htu")
    if not isinstance(jti, str) or not 0 < len(jti) <= JTI_LIMIT or members.get("htm") != demand.method:
        return False
    if isinstance(issued, bool) or not isinstance(issued, int | float) or abs(issued) > now:
        return False
    if abs(int(issued * SECOND) - now) > WINDOW:
        return False
    if members.get("ath") != hash_token(demand.token) or not isinstance(uri, str):
        return False
    if not demand.path.startswith("/"):
        # Anything else would become a part of the authority that it is put behind.
        return False
    try:
        return normalise_uri(uri) == normalise_uri(demand.origin + demand.path.partition("?")[0])
    except ValueError:
        return False


def _normalise_path(path: str) -> str:
    kept: list[str] = []
    for segment in path.split("/")[1:]:
        plain = _normalise_escapes(segment)
        if plain == "..":
            kept[-1:] = []
        elif plain != ".":
            kept.append(plain)
    if path.endswith(("/.", "/..")):
        kept.append("")
    return "/" + "/".join(kept)


def _normalise_escapes(segment: str) -> str:
    """Undo the escapes that change nothing, write the others in upper case. Raises ValueError for a broken one."""
    first, *rest = segment.split("%")
    return first + "".join(_normalise_escape(part[:2]) + part[2:] for part in rest)


def _normalise_escape(digits: str) -> str:
    if len(digits) != 2:
        raise ValueError("a percent sign without two digits")
    letter = chr(int(digits, 16))
    return letter if letter in _UNRESERVED else "%" + digits.upper()
