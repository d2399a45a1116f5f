"""What is known of revocations: CRLs and OCSP responses in memory, asked on every request, never fetched by one."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography import x509

from authz.crl import ALL_REASONS, Crl, StatusInvalid
from authz.ocsp import Response, read_response
from authz.parsed import Name, Parsed
from model.instant import SECOND, Instant
from model.reason import Reason
from model.verdict import Deny

MAX_RESPONSES = 65_536
MAX_WANTED = 256
"""Certificates whose status the background is asked to find out; beyond it, later ones wait for room."""

ABOVE_REVOKED = "A certificate above the client certificate has been revoked."
STALE = "The revocation list of its issuer is past its time or does not speak of the client certificate."

Key = tuple[Name, int]
"""Issuer name and serial number."""


@dataclass(slots=True, eq=False)
class Revocations:
    """The book of revocations of one trust store.

    `lists` are by source, so that a newer list takes the place of the older one of the same source. `wanted` holds the
    certificates of paths that held and whose status is not known, with their issuers, for the background to look up.
    `unchecked` counts the requests that passed by a soft policy though the status of their certificate was not known.
    """

    lists: dict[str, Crl] = field(default_factory=dict)
    responses: dict[Key, Response] = field(default_factory=dict)
    wanted: dict[Key, tuple[Parsed, Parsed]] = field(default_factory=dict)
    by_issuer: dict[Name, tuple[Crl, ...]] = field(default_factory=dict)
    unchecked: int = 0

    def put_crl(self, source: str, crl: Crl) -> None:
        """Take over a list that a source brought. Raises StatusInvalid and keeps the old one where that is newer.

        A list that is older than the one held is refused: it would forget revocations.
        """
        held = self.lists.get(source)
        if held is not None and held.issuer == crl.issuer and _older(crl, held):
            raise StatusInvalid("the list is older than the one held")
        self.lists[source] = crl
        self._index()

    def drop_source(self, source: str) -> None:
        """Forget the list of a source that the document names no more."""
        if self.lists.pop(source, None) is not None:
            self._index()

    def put_response(self, data: bytes, certificate: Parsed, issuer: Parsed, now: Instant) -> Response:
        """Take an OCSP response over. Raises StatusInvalid and keeps what is known."""
        response = read_response(data, certificate, issuer, now)
        key = (certificate.issuer, certificate.serial)
        held = self.responses.pop(key, None)
        if held is not None and held.this_update > response.this_update:
            self.responses[key] = held
            raise StatusInvalid("the response is older than the one held")
        if len(self.responses) >= MAX_RESPONSES:
            del self.responses[next(iter(self.responses))]
        self.responses[key] = response
        self.wanted.pop(key, None)
        return response

    def judge(self, path: Sequence[Parsed], now: Instant, *, hard: bool) -> Deny | None:
        """Judge every certificate of a path (leaf first) below its anchor.

        Revoked always refuses, even by a list that is past its time. Where `hard`, a leaf whose status is not known
        refuses too, and a CA of whose issuer a list is held that does not answer; a CA of whose issuer no list was ever
        configured does not (a list for the issuing CA alone must not lock everybody out).
        """
        for index in range(len(path) - 1):
            certificate, issuer = path[index], path[index + 1]
            revoked = self._status(certificate, issuer, now)
            if revoked:
                return Deny(Reason.CERTIFICATE_REVOKED, None if index == 0 else ABOVE_REVOKED)
            if revoked is None and hard:
                if certificate.issuer in self.by_issuer:
                    return Deny(Reason.CERTIFICATE_STATUS_UNKNOWN, STALE)
                if index == 0:
                    return Deny(Reason.CERTIFICATE_STATUS_UNKNOWN)
            self.unchecked += revoked is None and index == 0
        return None

    def seconds_left(self, now: Instant) -> dict[str, int]:
        """Seconds until nextUpdate for each source; negative when it has passed, as alerts want to see it coming."""
        return {
            source: ((crl.next_update if crl.next_update is not None else crl.this_update) - now) // SECOND
            for source, crl in self.lists.items()
        }

    def _status(self, certificate: Parsed, issuer: Parsed, now: Instant) -> bool | None:
        """Say whether a certificate is revoked; None where nobody in force says anything.

        A short-term certificate needs no status, and has one where somebody revoked it all the same.
        """
        response = self.responses.get((certificate.issuer, certificate.serial))
        lists = self.by_issuer.get(certificate.issuer)
        listed = None if lists is None else _listed(lists, certificate, now)
        unclear = listed is None and not certificate.short_term
        if unclear and (response is None or now > response.renewal):
            self._want(certificate, issuer)
        if listed or (response is not None and response.revoked):
            return True
        if certificate.short_term:
            return False
        if listed is None and response is not None and response.fresh(now):
            return False
        return listed

    def _want(self, certificate: Parsed, issuer: Parsed) -> None:
        if len(self.wanted) < MAX_WANTED:
            self.wanted[certificate.issuer, certificate.serial] = (certificate, issuer)

    def _index(self) -> None:
        by_issuer: dict[Name, tuple[Crl, ...]] = {}
        for crl in self.lists.values():
            by_issuer[crl.issuer] = (*by_issuer.get(crl.issuer, ()), crl)
        self.by_issuer = by_issuer


def _listed(lists: Sequence[Crl], certificate: Parsed, now: Instant) -> bool | None:
    """Ask the lists of one issuer; False only where lists in force answer for every reason."""
    answered: frozenset[x509.ReasonFlags] = frozenset()
    for crl in lists:
        if crl.base is not None or not crl.scope.covers(certificate):
            continue
        entry = crl.entries.get(certificate.serial, False)
        delta = _delta_of(crl, lists)
        if delta is not None:
            changed = delta.entries.get(certificate.serial, entry)
            # Past its time a delta lifts nothing any more, but what it revoked stays so, as with a complete list.
            entry = changed if delta.fresh(now) else entry or changed
        if entry:
            return True
        if crl.fresh(now):
            answered |= crl.scope.reasons
    return False if answered >= ALL_REASONS else None


def _delta_of(base: Crl, lists: Sequence[Crl]) -> Crl | None:
    """Find the newest delta that adds to this complete list (RFC 5280 section 5.2.4)."""
    deltas = [
        each
        for each in lists
        if each.base is not None and each.base <= base.number < each.number and each.scope.names == base.scope.names
    ]
    return max(deltas, key=lambda each: each.number, default=None)


def _older(new: Crl, held: Crl) -> bool:
    """Tell which came first; numbers count for one key only, as an authority with a new one may begin anew."""
    return (new.signer == held.signer and new.number < held.number) or new.this_update < held.this_update
