"""A JWK set read into keys that know which algorithms they may verify, and how.

A key carries one verifier per algorithm that its type, curve, `alg`, `use` and `key_ops` leave it, so that an
algorithm which does not fit a key (RFC 8725 section 3.1) has nothing to be run with. Symmetric keys have no place in
a published set and are ignored, and so is every key that is weak, malformed or not understood (RFC 7517 section 5).
Pure: no clock, no I/O.
"""

import hashlib
import json
from base64 import urlsafe_b64encode
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import Algorithm, get_default_algorithms
from jwt.exceptions import PyJWTError

from authz.strict import KID_LIMIT, Malformed, decode_base64url, read_object

KEYS_LIMIT = 100
"""Keys of one set; those beyond it are ignored."""
TRIES_LIMIT = 4
"""Keys that one token without a `kid` is tried against."""

Verifier = Callable[[bytes, bytes], bool]
"""(signing input, signature) -> whether the signature holds."""

# What a key of this type or curve can verify (RFC 7518 section 3.1, RFC 8037 section 3.1, RFC 9864 section 2.2).
_FITTING: dict[str, tuple[str, ...]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA", "Ed25519"),
}
ALGORITHMS = frozenset(name for names in _FITTING.values() for name in names)
"""Every algorithm that a key can verify here. HS*, "none" and ES256K are not among them and cannot be configured."""

_LIBRARY: dict[str, Algorithm] = get_default_algorithms()
_LIBRARY["Ed25519"] = _LIBRARY["EdDSA"]  # one algorithm under two names (RFC 9864)

# Members that make the public key; with kty, and crv where there is one, those of its thumbprint (RFC 7638).
_MATERIAL: dict[str, tuple[str, ...]] = {"RSA": ("e", "n"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
_PRIVATE = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth", "k"))

# y of the points whose order divides 8. Under such a key a signature can be made to hold for any message.
_FIELD = 2**255 - 19
_EIGHT = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = frozenset((0, 1, _FIELD - 1, _EIGHT, _FIELD - _EIGHT))

# The fingerprint of moduli that one smart card library made guessable (CVE-2017-15361, "ROCA"): modulo each of these
# primes they are a power of 65537. A sound modulus passes by chance once in 2^27.
_PRIMES = tuple(p for p in range(3, 168, 2) if all(p % q for q in range(3, p, 2)))
_POWERS = {p: frozenset(pow(65537, exponent, p) for exponent in range(p)) for p in _PRIMES}


class KeyUnusable(ValueError):
    """The JWK is no public key that may verify a signature here; the text says why."""


class KeySetInvalid(ValueError):
    """The document holds no usable key at all; the text says why."""


@dataclass(frozen=True, slots=True)
class Key:
    """A public key. `kind` is its `kty` or curve, `thumbprint` its SHA-256 by RFC 7638 in base64url."""

    kid: str | None
    kind: str
    thumbprint: str
    verifiers: Mapping[str, Verifier] = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeySet:
    """The usable keys of an issuer, and why the others were ignored. `digest` tells two documents apart (hex)."""

    keys: tuple[Key, ...]
    ignored: tuple[str, ...] = ()
    digest: str = ""
    by_kid: Mapping[str, tuple[Key, ...]] = field(init=False, repr=False, compare=False)
    thumbprints: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index the keys by kid."""
        index: defaultdict[str, tuple[Key, ...]] = defaultdict(tuple)
        for key in self.keys:
            if key.kid is not None:
                index[key.kid] += (key,)
        object.__setattr__(self, "by_kid", dict(index))
        object.__setattr__(self, "thumbprints", frozenset(key.thumbprint for key in self.keys))

    def select(self, kid: str | None, algorithm: str) -> tuple[Key, ...] | None:
        """Pick the keys that a token may be tried against; None where no key has this kid.

        A kid picks its key and no other. Without one, every key that fits the algorithm may have signed, up to
        TRIES_LIMIT of them; a null kid is read as none (see docs/decisions).
        """
        if kid is None:
            return tuple(key for key in self.keys if algorithm in key.verifiers)[:TRIES_LIMIT]
        named = self.by_kid.get(kid)
        return None if named is None else tuple(key for key in named if algorithm in key.verifiers)


def read_keys(document: bytes) -> KeySet:
    """Read a JWK set (RFC 7517 section 5), leaving out each key that cannot be used.

    Keys that share a kid stay where their algorithms tell them apart and all go where they do not. Raises
    KeySetInvalid where the document is no set or nothing usable is left.
    """
    try:
        entries = read_object(document).get("keys")
    except Malformed as error:
        raise KeySetInvalid(f"the key set is {error}") from error
    if not isinstance(entries, list):
        raise KeySetInvalid("the key set has no array of keys")
    keys: list[Key] = []
    ignored: list[str] = []
    for place, entry in enumerate(entries[:KEYS_LIMIT]):
        try:
            keys.append(read_key(entry))
        except KeyUnusable as error:
            ignored.append(f"key {place}: {error}")
    if len(entries) > KEYS_LIMIT:
        ignored.append(f"{len(entries) - KEYS_LIMIT} keys beyond the first {KEYS_LIMIT}")
    kept = _drop_ambiguous(keys, ignored)
    if not kept:
        raise KeySetInvalid("; ".join(["no usable key", *ignored[:5]]))
    return KeySet(kept, tuple(ignored), hashlib.sha256(document).hexdigest())


def read_key(jwk: object) -> Key:
    """Read one public JWK (RFC 7517 section 4, RFC 7518 section 6, RFC 8037 section 2). Raises KeyUnusable."""
    if not isinstance(jwk, dict):
        raise KeyUnusable("not an object")
    kind = _read_kind(jwk)
    if not _PRIVATE.isdisjoint(jwk):
        raise KeyUnusable("has private members: it is no secret any more")
    kid = jwk.get("kid")
    if kid is not None and not (isinstance(kid, str) and len(kid) <= KID_LIMIT):
        raise KeyUnusable("kid is not a short string")
    names = _permitted_algorithms(jwk, kind)
    material = _load_material(jwk, kind)
    verifiers = {name: partial(_verify_with, _LIBRARY[name].verify, material) for name in names}
    return Key(kid, kind, thumbprint_jwk(jwk), verifiers)


def thumbprint_jwk(jwk: Mapping[str, Any]) -> str:
    """Compute the SHA-256 thumbprint of a public key (RFC 7638 section 3), base64url without padding."""
    members = {name: jwk[name] for name in ("kty", *_MATERIAL[jwk["kty"]])}
    text = json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def _verify_with(verify: Callable[[bytes, Any, bytes], bool], material: Any, signed: bytes, signature: bytes) -> bool:
    return verify(signed, material, signature)


def _read_kind(jwk: Mapping[str, Any]) -> str:
    """Tell the kind of a key: its type, or its curve where it has one."""
    kty = jwk.get("kty")
    kind = kty if kty == "RSA" else jwk.get("crv") if kty in ("EC", "OKP") else None
    if not isinstance(kind, str) or kind not in _FITTING or (kty == "OKP") != (kind == "Ed25519"):
        raise KeyUnusable("a key type or curve that is not used here")
    return kind


def _permitted_algorithms(jwk: Mapping[str, Any], kind: str) -> tuple[str, ...]:
    """Narrow what fits the kind by `use`, `key_ops` and `alg` (RFC 7517 sections 4.2 to 4.4), binding where present.

    A member that is null counts as absent, as for `kid`.
    """
    use, operations, algorithm = (jwk.get(name) for name in ("use", "key_ops", "alg"))
    if use is not None and use != "sig":
        raise KeyUnusable("not meant for signatures (use)")
    if operations is not None and not (isinstance(operations, list) and "verify" in operations):
        raise KeyUnusable("not meant for verification (key_ops)")
    fitting = _FITTING[kind]
    if algorithm is not None and algorithm not in fitting:
        raise KeyUnusable("its alg does not fit its type")
    # EdDSA and Ed25519 name one algorithm: a key published under either verifies both.
    return fitting if algorithm is None or kind == "Ed25519" else (algorithm,)


def _load_material(jwk: Mapping[str, Any], kind: str) -> Any:
    raw: dict[str, bytes] = {}
    for name in _MATERIAL[jwk["kty"]]:
        text = jwk.get(name)
        if not isinstance(text, str):
            raise KeyUnusable(f"{name} is missing or not a string")
        try:
            raw[name] = b"" if name == "crv" else decode_base64url(text.encode("ascii"))
        except ValueError as error:
            raise KeyUnusable(f"{name} is not base64url") from error
    try:
        material: Any = _LIBRARY[_FITTING[kind][0]].from_jwk(dict(jwk))
    except (PyJWTError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyUnusable("not a valid public key") from error
    if kind == "RSA":
        _check_rsa(material)
    elif kind == "Ed25519" and (int.from_bytes(raw["x"], "little") & (2**255 - 1)) % _FIELD in _SMALL_ORDER:
        raise KeyUnusable("a point of small order")
    return material


def _check_rsa(material: RSAPublicKey) -> None:
    numbers = material.public_numbers()
    if not 2048 <= numbers.n.bit_length() <= 8192:
        raise KeyUnusable("an RSA modulus outside 2048 to 8192 bits")
    if not (65537 <= numbers.e < 2**32 and numbers.e & 1):
        raise KeyUnusable("an RSA exponent that is even, below 65537 or above 32 bits")
    if not numbers.n & 1:
        raise KeyUnusable("an RSA modulus that is even")
    if all(numbers.n % prime in powers for prime, powers in _POWERS.items()):
        raise KeyUnusable("an RSA modulus of the ROCA kind")


def _drop_ambiguous(keys: list[Key], ignored: list[str]) -> tuple[Key, ...]:
    """Drop exact copies, and every key whose kid and algorithm another key has too."""
    distinct = {(key.kid, key.thumbprint, frozenset(key.verifiers)): key for key in keys}.values()
    owners: defaultdict[tuple[str | None, str], set[str]] = defaultdict(set)
    for key in distinct:
        for name in key.verifiers:
            owners[key.kid, name].add(key.thumbprint)
    kept = []
    for key in distinct:
        if key.kid is not None and any(len(owners[key.kid, name]) > 1 for name in key.verifiers):
            ignored.append(f"a kid that several keys share: {key.kid!r}")
        else:
            kept.append(key)
    return tuple(kept)
