"""What a cross check finds: a place in the document, what stands there and what should."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from policy.tree import Where


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault that has no file yet. `warning` findings are told and do not refuse the document.

    `counterpart` is the place whose absence was found: where something was refused there, the absence is no news.
    """

    where: Where
    found: str
    expected: str
    warning: bool = False
    counterpart: Where = ()


Findings = Iterator[Finding]


def one_of(names: Sequence[str]) -> str:
    """List names that would have been known."""
    return "one of " + ", ".join(sorted(names)) if names else "a name that is defined (there are none)"
