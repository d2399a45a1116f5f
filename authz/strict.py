"""A strict reader of compact JWS: base64url, JSON and header rules, before any key or claim is looked at.

PyJWT reads leniently where it matters: it takes padded base64url, repeated members and NaN. Everything here refuses
what RFC 7515 does not spell, so that one token has exactly one spelling. Pure: no clock, no I/O, no keys.
"""

import binascii
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn

from model.reason import Reason
from model.verdict import Deny

TOKEN_LIMIT = 16 * 1024
"""Characters of a whole compact token."""
HEADER_LIMIT = 4 * 1024
"""Octets of a decoded header."""
KID_LIMIT = 256
"""Characters of a `kid`."""
DEPTH_LIMIT = 32
"""Objects and arrays inside one another."""

# RFC 4648 section 5 letters onto those of section 4, which binascii reads; what is foreign here becomes foreign there.
_LETTERS = bytes.maketrans(b"-_+/=", b"+/!!!")
_PADDING = (b"", None, b"==", b"=")
# The last letter must leave the bits that encode nothing at zero (RFC 4648 section 3.5), or tokens are malleable.
_LAST = (None, None, frozenset(b"AQgw"), frozenset(b"AEIMQUYcgkosw048"))
_SPACE = " \t\n\r"  # RFC 8259 section 2
_EMBEDDED = frozenset(("jwk", "jku", "x5u", "x5c"))
_REMOTE = _EMBEDDED - {"jwk"}
_CRITICAL = frozenset(("crit", "b64"))


class Malformed(ValueError):
    """The text is not what its specification allows."""


@dataclass(slots=True)
class Compact:
    """A compact JWS that is well-formed and not verified.

    `kid` is None where it is absent or null. `type` is `typ` in lower case without "application/", "" where absent.
    `signed` is the signing input: the octets that the signature covers. `payload` and `signature` are decoded.
    """

    header: dict[str, object]
    algorithm: str
    kid: str | None
    type: str
    signed: bytes
    payload: bytes
    signature: bytes


def decode_base64url(text: bytes) -> bytes:
    """Decode unpadded base64url (RFC 7515 section 2). Raises Malformed on any other spelling, unused bits included."""
    rest = len(text) & 3
    padding = _PADDING[rest]
    last = _LAST[rest]
    if padding is None or (last is not None and text[-1] not in last):
        raise Malformed("base64url of an impossible length, or with unused bits that are not zero")
    try:
        return binascii.a2b_base64(text.translate(_LETTERS) + padding, strict_mode=True)
    except binascii.Error as error:
        raise Malformed("not base64url") from error


def read_object(raw: bytes) -> dict[str, object]:
    """Read a JSON object (RFC 7519 section 7.2).

    Raises Malformed on anything but one UTF-8 JSON object: repeated member names at any level, nesting beyond
    DEPTH_LIMIT, NaN, infinities (1e400 as well), lone surrogates, a byte order mark.
    """
    try:
        text = raw.decode().strip(_SPACE)
        value, end = _DECODER.raw_decode(text)
        if end != len(text):
            raise Malformed("something behind the value")
        if text.count("{") + text.count("[") > DEPTH_LIMIT and _nesting(value) > DEPTH_LIMIT:
            raise Malformed("nested too deeply")
        if "\\u" in text:
            # Only an escape can spell a lone surrogate; let through, it would fail where the value is written again.
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise Malformed("not a JSON object") from error
    if not isinstance(value, dict):
        raise Malformed("not a JSON object")
    return value


def read_compact(text: str, *, embedded: bool = False) -> Compact | Deny:
    """Take a compact JWS apart (RFC 7515 sections 3.1, 4.1 and 5.2), looking at no key.

    Refused: more than TOKEN_LIMIT characters, anything but three parts (a JWE has five), a header that brings its own
    key or names where to find it (RFC 8725 section 3.10), and any critical extension, as none is implemented.
    `embedded` lets a `jwk` header through, for the one kind of JWS that has to bring its key (RFC 9449 section 4.2).
    """
    if len(text) > TOKEN_LIMIT:
        return Deny(Reason.TOKEN_TOO_LARGE)
    try:
        return _read_parts(text.encode("ascii"), _REMOTE if embedded else _EMBEDDED)
    except ValueError:
        return Deny(Reason.TOKEN_MALFORMED)


def _read_parts(octets: bytes, forbidden: frozenset[str]) -> Compact | Deny:
    signed, dot, signature = octets.rpartition(b".")
    first, second, payload = signed.partition(b".")
    if not dot or not second or b"." in payload:
        raise Malformed("not three parts")
    header = _read_header(first, forbidden)
    if isinstance(header, Deny):
        return header
    return Compact(*header, signed, decode_base64url(payload), decode_base64url(signature))


@lru_cache(maxsize=256)
def _read_header(text: bytes, forbidden: frozenset[str]) -> tuple[dict[str, object], str, str | None, str] | Deny:
    """Read a header: all of it, and its `alg`, `kid` and `typ`. Remembered, as all tokens of one key share theirs."""
    raw = decode_base64url(text)
    if len(raw) > HEADER_LIMIT:
        return Deny(Reason.TOKEN_TOO_LARGE)
    header = read_object(raw)
    if not _CRITICAL.isdisjoint(header):
        return Deny(Reason.TOKEN_CRITICAL)
    if not forbidden.isdisjoint(header):
        return Deny(Reason.TOKEN_KEY_EMBEDDED)
    return header, _read_algorithm(header), _read_kid(header), _read_type(header)


def _read_algorithm(header: dict[str, object]) -> str:
    algorithm = header.get("alg")
    if not isinstance(algorithm, str):
        raise Malformed("no alg")
    return algorithm


def _read_kid(header: dict[str, object]) -> str | None:
    """Read `kid`, a string that is only ever compared. Null counts as absent: some issuers write it so."""
    kid = header.get("kid")
    if kid is None:
        return None
    if not isinstance(kid, str) or len(kid) > KID_LIMIT:
        raise Malformed("kid is not a short string")
    return kid


def _read_type(header: dict[str, object]) -> str:
    """Read `typ` as RFC 7515 section 4.1.9 compares it: a media type, whose "application/" may be left out."""
    if "typ" not in header:
        return ""
    name = header["typ"]
    if not isinstance(name, str) or not name:
        raise Malformed("typ is not a string")
    return name.lower().removeprefix("application/")


def _nesting(value: object) -> int:
    """Count the deepest nesting. Runs only where a text has more brackets than may stand inside one another."""
    depth = 0
    level = [value]
    while level:
        depth += 1
        level = [child for node in level for child in _children(node) if isinstance(child, dict | list)]
    return depth


def _children(node: object) -> Iterable[object]:
    if isinstance(node, dict):
        return node.values()
    return node if isinstance(node, list) else ()


def _unique_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Malformed("a member name is repeated")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise Malformed(f"{name} is not JSON")


def _finite_number(text: str) -> float:
    number = float(text)
    if number - number != 0.0:  # infinite: the text is beyond what a double holds
        raise Malformed("number out of range")
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique_members, parse_constant=_refuse_constant, parse_float=_finite_number
)
