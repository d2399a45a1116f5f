"""Certificate policies along a path (RFC 5280 section 6.1, with the sets of RFC 9618 in place of the tree).

Nobody asks for a policy here (the initial set is any-policy): what is judged is whether the CAs of the path demanded
one that the certificates below them do not carry.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat import asn1

from authz.der import enclose
from authz.extension import find_value

ANY = "2.5.29.32.0"
MAPPINGS = x509.ObjectIdentifier("2.5.29.33")


@asn1.sequence
class _Mapping:
    issuer: x509.ObjectIdentifier
    subject: x509.ObjectIdentifier


@asn1.sequence
class _Enclosed:
    """PolicyMappings is a SEQUENCE OF at the root, which the parser reads only inside a class."""

    mappings: list[_Mapping]


@dataclass(frozen=True, slots=True)
class Policies:
    """What one certificate says of policies, as dotted OIDs. `named` None: it has no certificatePolicies at all."""

    named: frozenset[str] | None
    mappings: tuple[tuple[str, str], ...] = ()
    require_explicit: int | None = None
    inhibit_mapping: int | None = None
    inhibit_any: int | None = None


def read_policies(extensions: x509.Extensions) -> Policies:
    """Read the four policy extensions. Raises ValueError for policyMappings that are not DER."""
    named = find_value(extensions, x509.CertificatePolicies)
    constraints = find_value(extensions, x509.PolicyConstraints)
    inhibit = find_value(extensions, x509.InhibitAnyPolicy)
    return Policies(
        named=None if named is None else frozenset(each.policy_identifier.dotted_string for each in named),
        mappings=next((_read_mappings(each.value.public_bytes()) for each in extensions if each.oid == MAPPINGS), ()),
        require_explicit=None if constraints is None else constraints.require_explicit_policy,
        inhibit_mapping=None if constraints is None else constraints.inhibit_policy_mapping,
        inhibit_any=None if inhibit is None else inhibit.skip_certs,
    )


def policies_hold(path: Sequence[tuple[Policies, bool]]) -> bool:
    """Whether the demands of the path are met; `path` is leaf first, without the anchor, each with "self-issued"."""
    if not path:  # the leaf is itself an anchor
        return True
    state = _State(len(path) + 1)
    for left, (policies, self_issued) in reversed(list(enumerate(path))):
        state.meet(policies, any_counts=state.inhibit_any > 0 or (left > 0 and self_issued))
        if state.explicit == 0 and not state.valid:
            return False
        if left and not state.prepare(policies, counts=not self_issued):
            return False
    last = path[0][0]
    explicit = max(state.explicit - 1, 0) if last.require_explicit != 0 else 0
    return explicit > 0 or bool(state.valid)


class _State:
    """The variables of RFC 5280 section 6.1.2: three counters and the policies that are valid so far."""

    __slots__ = ("explicit", "inhibit_any", "mapping", "valid")

    def __init__(self, length: int) -> None:
        self.explicit = self.mapping = self.inhibit_any = length
        self.valid: frozenset[str] = frozenset({ANY})

    def meet(self, policies: Policies, *, any_counts: bool) -> None:
        """Keep what the next certificate names too (section 6.1.3 d and e)."""
        named = policies.named or frozenset()
        kept = {each for each in named - {ANY} if each in self.valid or ANY in self.valid}
        if ANY in named and any_counts:
            kept |= self.valid
        self.valid = frozenset(kept)

    def prepare(self, policies: Policies, *, counts: bool) -> bool:
        """Get ready for the certificate below (section 6.1.4 a to j); False where a mapping is not allowed at all."""
        if any(ANY in pair for pair in policies.mappings):
            return False
        self.valid = self._mapped(policies.mappings)
        if counts:
            self.explicit = max(self.explicit - 1, 0)
            self.mapping = max(self.mapping - 1, 0)
            self.inhibit_any = max(self.inhibit_any - 1, 0)
        self.explicit = _least(self.explicit, policies.require_explicit)
        self.mapping = _least(self.mapping, policies.inhibit_mapping)
        self.inhibit_any = _least(self.inhibit_any, policies.inhibit_any)
        return True

    def _mapped(self, mappings: Iterable[tuple[str, str]]) -> frozenset[str]:
        mapped = {issuer for issuer, _ in mappings}
        kept = self.valid - mapped
        if self.mapping == 0:
            return kept
        return kept | {subject for issuer, subject in mappings if issuer in self.valid or ANY in self.valid}


def _least(counter: int, demand: int | None) -> int:
    return counter if demand is None else min(counter, demand)


def _read_mappings(der: bytes) -> tuple[tuple[str, str], ...]:
    mappings = asn1.decode_der(_Enclosed, enclose(der)).mappings
    return tuple((each.issuer.dotted_string, each.subject.dotted_string) for each in mappings)
