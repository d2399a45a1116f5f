"""The keys that sign the caller context: Ed25519, rotated with overlap, published as a JWK set.

A ring is an immutable value and a pure function of time: the key that signs at an instant is the newest whose time has
come. A new key is published one overlap before it signs, and an old one stays published one overlap after it stopped,
so that an upstream which reads the set at least once per overlap never meets an unknown key. The overlap must be longer
than the lifetime of a context.
"""

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from model.instant import DAY, MINUTE, Duration, Instant

TYPE = "wardgate-context+jwt"
"""The `typ` of a caller context: a token of another kind can never pass for one (RFC 8725 section 3.11)."""


class RingInvalid(ValueError):
    """The stored ring cannot be read."""


def encode_segment(data: bytes) -> str:
    """Write base64url without padding (RFC 7515 section 2)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


@dataclass(frozen=True)
class RingKey:
    """One signing key and the instant from which it signs."""

    private: Ed25519PrivateKey
    since: Instant

    @cached_property
    def public(self) -> dict[str, str]:
        """The public JWK (RFC 8037 section 2); `kid` is the RFC 7638 thumbprint."""
        raw = self.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        core = {"crv": "Ed25519", "kty": "OKP", "x": encode_segment(raw)}
        digest = hashlib.sha256(json.dumps(core, separators=(",", ":"), sort_keys=True).encode()).digest()
        return {**core, "kid": encode_segment(digest), "alg": "EdDSA", "use": "sig"}

    @cached_property
    def header(self) -> str:
        """The protected header of everything that this key signs, already encoded."""
        members = {"alg": "EdDSA", "kid": self.public["kid"], "typ": TYPE}
        return encode_segment(json.dumps(members, separators=(",", ":")).encode())

    def sign(self, payload: bytes) -> str:
        """Write a compact JWS over the payload (RFC 7515 section 7.1)."""
        signed = f"{self.header}.{encode_segment(payload)}"
        return f"{signed}.{encode_segment(self.private.sign(signed.encode('ascii')))}"


@dataclass(frozen=True, slots=True)
class ContextRing:
    """All keys that are published, oldest first. `rotation` is how long each signs; durations in nanoseconds."""

    keys: tuple[RingKey, ...]
    rotation: Duration = DAY
    overlap: Duration = 10 * MINUTE

    @classmethod
    def create(
        cls,
        now: Instant,
        rotation: Duration = DAY,
        overlap: Duration = 10 * MINUTE,
        generate: Callable[[], Ed25519PrivateKey] = Ed25519PrivateKey.generate,
    ) -> Self:
        """Start a ring with one key that signs at once."""
        return cls((RingKey(generate(), now),), rotation, overlap)

    def rotate(
        self, now: Instant, generate: Callable[[], Ed25519PrivateKey] = Ed25519PrivateKey.generate
    ) -> "ContextRing":
        """Return the ring as it must be now: the next key added in time, keys past their overlap dropped.

        Returns itself where nothing is due, so that a caller can tell by identity whether there is anything to save.
        """
        keys = self.keys
        if keys[-1].since + self.rotation - self.overlap <= now:
            keys = (*keys, RingKey(generate(), max(now + self.overlap, keys[-1].since + self.rotation)))
        kept = tuple(
            key
            for key, after in zip(keys, (*keys[1:], None), strict=True)
            if after is None or after.since + self.overlap > now
        )
        return self if kept == self.keys else ContextRing(kept, self.rotation, self.overlap)

    def signer(self, now: Instant) -> RingKey:
        """Return the key that signs at this instant; the oldest one where the clock went back behind all."""
        for key in reversed(self.keys):
            if key.since <= now:
                return key
        return self.keys[0]

    def sign(self, payload: bytes, now: Instant) -> str:
        """Sign with the key of this instant."""
        return self.signer(now).sign(payload)

    def jwks(self) -> dict[str, list[dict[str, str]]]:
        """Return the JWK set for upstreams (RFC 7517 section 5): public members only."""
        return {"keys": [dict(key.public) for key in self.keys]}

    def to_json(self) -> str:
        """Write the ring with its private keys: for a file that only the sidecar may read."""
        return json.dumps(
            {
                "rotation": self.rotation,
                "overlap": self.overlap,
                "keys": [{"since": key.since, "d": _private_text(key.private)} for key in self.keys],
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote. Raises RingInvalid for anything else."""
        try:
            stored = json.loads(text)
            keys = tuple(RingKey(_read_private(entry["d"]), int(entry["since"])) for entry in stored["keys"])
            ring = cls(keys, int(stored["rotation"]), int(stored["overlap"]))
        except (ValueError, TypeError, KeyError) as error:
            raise RingInvalid("not a ring of context keys") from error
        if not keys:
            raise RingInvalid("a ring without keys")
        return ring


def _private_text(key: Ed25519PrivateKey) -> str:
    return encode_segment(key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption()))


def _read_private(text: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
