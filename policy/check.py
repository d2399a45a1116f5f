"""What the shape cannot say: references, contradictions and traps across the sections of a document."""

from collections.abc import Iterable

from policy.bounds import check_bounds
from policy.crossing import check_crossing
from policy.finding import Finding
from policy.gateway import Document
from policy.matching import check_routes
from policy.sections import check_issuers, check_planes, check_rest, check_tiers
from policy.timing import check_timing

SECTIONS = ("planes", "tiers", "upstreams")


def check_document(document: Document, known: dict[str, frozenset[str]]) -> Iterable[Finding]:
    """Find everything that is wrong between the parts of a document.

    `known` holds the names of SECTIONS as they stand in the file, also those whose own content was refused: a
    reference to one of them is no second fault.
    """
    yield from check_planes(document)
    yield from check_issuers(document)
    yield from check_tiers(document, known)
    yield from check_routes(document, known)
    yield from check_timing(document)
    yield from check_crossing(document)
    yield from check_bounds(document)
    yield from check_rest(document)
