"""The client certificate: read from Envoy's attribute, judged by a profile, and remembered while nothing changes.

Envoy has checked the chain in the handshake; it is checked here again, on every request against the clock, because a
connection outlives certificates, anchors and revocations (CVE-2022-21654).
"""

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import unquote_to_bytes

from authz.chain import build_path
from authz.parsed import Parsed, Unparsable, parse_certificate
from authz.profile import FOREVER, Identity, block_names, judge_leaf
from model.instant import MINUTE, Instant
from model.reason import Reason
from model.snapshot import CertificateProfile
from model.verdict import Deny

__all__ = ["Certificates", "Identity", "StatusBook", "Trust", "judge_certificate", "open_trust", "read_peer"]

MAX_TEXT = 256 * 1024
"""Characters of the attribute: 64 KiB of DER in base64 and URL escapes, with room to spare."""
MAX_LEAF = 16 * 1024
MAX_CHAIN = 64 * 1024
MAX_CERTIFICATES = 8
MAX_STANDINGS = 4096
"""Verdicts remembered for each trust store; the oldest goes first."""
RETRY = MINUTE
"""How long a refusal for want of a path is remembered: the path may become valid with time."""

BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
PEM = re.compile(rb"\s*-----BEGIN CERTIFICATE-----\s([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----\s*")


@dataclass(frozen=True, slots=True)
class Certificates:
    """What the peer presented, as DER: its own certificate and whatever came with it. `digest` names all of it."""

    leaf: bytes
    chain: tuple[bytes, ...]
    digest: bytes


class StatusBook(Protocol):
    """What is known of revocations (authz.status)."""

    def judge(self, path: tuple[Parsed, ...], now: Instant, *, hard: bool) -> Deny | None:
        """Refuse a path with a revoked certificate, or where `hard` one whose status is not known."""
        ...


@dataclass(frozen=True, slots=True)
class Standing:
    """A verdict and how long it holds (both ends included), without what revocations say."""

    verdict: Identity | Deny
    since: Instant
    until: Instant
    path: tuple[Parsed, ...] = ()
    blocked: bool = False


@dataclass(slots=True, eq=False)
class Trust:
    """A certificate profile, parsed once for each snapshot, with the verdicts that were given under it."""

    profile: CertificateProfile
    anchors: tuple[Parsed, ...]
    blocked: frozenset[str]
    standings: dict[bytes, Standing] = field(default_factory=dict)


def open_trust(profile: CertificateProfile) -> Trust:
    """Parse the anchors of a profile. Raises ValueError naming the anchor that cannot be read or used."""
    anchors = []
    for number, text in enumerate(profile.anchors, 1):
        blocks = _pem_blocks(text.encode())
        if not blocks:
            raise ValueError(f"anchor {number} is not a PEM certificate")
        for der in blocks:
            try:
                anchors.append(parse_certificate(der))
            except Unparsable as error:
                raise ValueError(f"anchor {number}: {error}") from error
    return Trust(profile, tuple(anchors), frozenset(profile.blocked))


def read_peer(text: str) -> Certificates | Deny:
    """Read the URL-encoded PEM of `source.certificate` (Envoy AttributeContext.Peer): the leaf comes first."""
    if not text:
        return Deny(Reason.CERTIFICATE_MISSING)
    if len(text) > MAX_TEXT:
        return _malformed("The client certificate is too large.")
    if BROKEN_ESCAPE.search(text):
        return _malformed("The client certificate is not URL-encoded PEM.")
    try:
        ders = _pem_blocks(unquote_to_bytes(text))
    except UnicodeEncodeError:
        ders = ()
    if not ders:
        return _malformed("The client certificate is not URL-encoded PEM.")
    if len(ders) > MAX_CERTIFICATES or len(ders[0]) > MAX_LEAF or sum(map(len, ders)) > MAX_CHAIN:
        return _malformed("The client certificate is too large.")
    digest = hashlib.sha256()
    for der in ders:
        digest.update(len(der).to_bytes(4, "big") + der)
    return Certificates(ders[0], ders[1:], digest.digest())


def judge_certificate(
    peer: Certificates, trust: Trust, now: Instant, status: StatusBook | None = None
) -> Identity | Deny:
    """Judge what the peer presented, at `now`.

    The verdict is remembered in `trust` for as long as it holds; the clock, revocations and the block list are asked
    every time. `status` is not asked where the profile's revocation is "off"; where it is None and revocation is
    "hard", nobody passes.
    """
    standing = trust.standings.get(peer.digest)
    if standing is None or not standing.since <= now <= standing.until:
        standing = _stand(peer, trust, now)
        _remember(trust, peer.digest, standing)
    verdict = standing.verdict
    if isinstance(verdict, Deny):
        return verdict
    if trust.profile.revocation != "off":
        refusal = _judge_status(standing.path, trust, now, status)
        if refusal is not None:
            return refusal
    return Deny(Reason.CERTIFICATE_BLOCKED) if standing.blocked else verdict


def _judge_status(path: tuple[Parsed, ...], trust: Trust, now: Instant, status: StatusBook | None) -> Deny | None:
    hard = trust.profile.revocation == "hard"
    if status is None:
        return Deny(Reason.CERTIFICATE_STATUS_UNKNOWN) if hard else None
    return status.judge(path, now, hard=hard)


def _remember(trust: Trust, digest: bytes, standing: Standing) -> None:
    trust.standings.pop(digest, None)
    if len(trust.standings) >= MAX_STANDINGS:
        del trust.standings[next(iter(trust.standings))]
    trust.standings[digest] = standing


def _stand(peer: Certificates, trust: Trust, now: Instant) -> Standing:
    """Judge without memory. The leaf's own dates come first, so that expiry is not taken for want of trust."""
    try:
        leaf = parse_certificate(peer.leaf)
    except Unparsable as error:
        return Standing(_malformed(f"The client certificate cannot be parsed: {error}."), 0, FOREVER)
    if now > leaf.not_after:
        return Standing(Deny(Reason.CERTIFICATE_EXPIRED), leaf.not_after + 1, FOREVER)
    if now < leaf.not_before:
        return Standing(Deny(Reason.CERTIFICATE_NOT_YET_VALID), 0, leaf.not_before - 1)
    path = build_path(leaf, _presented(peer), trust.anchors, now)
    if isinstance(path, Deny):
        return Standing(path, now, now + RETRY)
    return Standing(
        judge_leaf(leaf, trust.profile),
        path.since,
        path.until,
        path.certificates,
        not trust.blocked.isdisjoint(block_names(leaf)),
    )


def _presented(peer: Certificates) -> list[Parsed]:
    """Parse the certificates that came along: an odd one among them refuses nobody by itself."""
    found = []
    for der in peer.chain:
        try:
            found.append(parse_certificate(der))
        except Unparsable:
            continue
    return found


def _pem_blocks(text: bytes) -> tuple[bytes, ...]:
    """Decode each PEM block to DER; nothing but certificates and white space may stand in the text, else ()."""
    blocks = []
    position = 0
    while position < len(text):
        match = PEM.match(text, position)
        if match is None:
            return ()
        try:
            blocks.append(base64.b64decode(b"".join(match.group(1).split()), validate=True))
        except binascii.Error:
            return ()
        position = match.end()
    return tuple(blocks)


def _malformed(detail: str) -> Deny:
    return Deny(Reason.CERTIFICATE_MALFORMED, detail)
