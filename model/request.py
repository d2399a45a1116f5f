"""What came in: one HTTP request as Envoy described it."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Request:
    """An HTTP request under decision. Not frozen: building it is on the path of every call (see docs/decisions).

    `path` is the path and query as Envoy will forward them (already normalised). `headers` maps lower-case names to
    the latin-1 text of their raw bytes; where a field came several times it holds the values joined by ", " and the
    name stands in `repeated`. `certificate` is Envoy's URL-encoded PEM of the TLS peer, "" without one; it is the only
    source of the peer's identity. `route` is the wardgate route id that Envoy matched, None where it sent none.
    `address` is the client address by Envoy's own trusted-hop rules. `received` is in nanoseconds since the epoch.
    """

    method: str = ""
    path: str = ""
    host: str = ""
    scheme: str = ""
    address: str = ""
    id: str = ""
    route: str | None = None
    certificate: str = ""
    sni: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    repeated: frozenset[str] = frozenset()
    received: int = 0
