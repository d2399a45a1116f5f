"""gRPC status codes as HTTP statuses and public sentences, as Envoy's transcoder maps them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mapped:
    """An HTTP status for a gRPC code. `told` is whether the backend's own message may reach the client."""

    http: int
    slug: str
    title: str
    told: bool
    retry_after: int | None = None


# google/rpc/code.proto gives the HTTP mapping in its comments. The messages of faults of our own side stay inside:
# they tend to hold stack traces and host names.
TABLE: dict[int, Mapped] = {
    1: Mapped(499, "cancelled", "Client closed request", told=False),
    2: Mapped(500, "unknown", "Upstream error", told=False),
    3: Mapped(400, "invalid-argument", "Invalid argument", told=True),
    4: Mapped(504, "upstream-timeout", "Gateway timeout", told=False),
    5: Mapped(404, "not-found", "Not found", told=True),
    6: Mapped(409, "already-exists", "Already exists", told=True),
    7: Mapped(403, "permission-denied", "Permission denied", told=True),
    8: Mapped(429, "resource-exhausted", "Resource exhausted", told=True, retry_after=1),
    9: Mapped(400, "failed-precondition", "Failed precondition", told=True),
    10: Mapped(409, "aborted", "Aborted", told=True),
    11: Mapped(400, "out-of-range", "Out of range", told=True),
    12: Mapped(501, "unimplemented", "Not implemented", told=False),
    13: Mapped(500, "upstream-error", "Upstream error", told=False),
    14: Mapped(503, "upstream-unavailable", "Service unavailable", told=False, retry_after=5),
    15: Mapped(500, "data-loss", "Upstream error", told=False),
    16: Mapped(401, "unauthenticated", "Unauthenticated", told=False),
}

UNKNOWN = TABLE[2]


def map_status(text: str) -> Mapped | None:
    """Read a `grpc-status` value: None for OK, the row of UNKNOWN for a code that does not exist."""
    if text == "0":
        return None
    if not text.isascii() or not text.isdigit():
        return UNKNOWN
    return TABLE.get(int(text[:4]), UNKNOWN)
