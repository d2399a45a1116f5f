"""Cross-origin rules that would let every page read what a browser's credentials open."""

from policy.finding import Finding, Findings
from policy.gateway import Document
from policy.plane import Cors
from policy.tree import Where


def check_crossing(document: Document) -> Findings:
    """Find cross-origin rules of planes and routes that open too much, or name no method."""
    for name, plane in document.planes.items():
        if plane.cors is not None:
            yield from _check_cors(("planes", name, "cors"), plane.cors)
    for index, route in enumerate(document.routes):
        if route.cors is not None:
            yield from _check_cors(("routes", index, "cors"), route.cors)


def _check_cors(where: Where, policy: Cors) -> Findings:
    for origin in policy.origins if policy.credentials else ():
        if _is_anybodys(origin):
            found = f"credentials for {origin!r}, which anybody can have"
            yield Finding((*where, "origins"), found, "named origins where credentials are true, or https://*.example")
    for method in policy.methods:
        if not (method == "*" or (method.isascii() and method.isalpha() and method.isupper())):
            yield Finding((*where, "methods"), repr(method), "methods in capitals, as browsers compare them")


def _is_anybodys(origin: str) -> bool:
    """Whether a name that somebody else can register is such an origin: what follows `*` is no domain then."""
    rest = origin.rpartition("*")[2] if "*" in origin else ".named"
    return origin == "null" or not (rest.startswith(".") and len(rest.partition(":")[0]) > 1)
