"""Upstreams: where a service is, how it is spoken to, and how much of it one gateway may use."""

from typing import Annotated, Literal

from pydantic import Field

from model.instant import MILLISECOND, MINUTE, SECOND
from policy.plane import Socket
from policy.scalar import Duration, Size
from policy.shape import Count, File, Shape, Text

_ROW = 5


class UpstreamTls(Shape):
    """The client side of TLS towards an upstream. `server_name` is sent as SNI and must stand in its certificate."""

    trust: File
    server_name: Text
    certificate: File | None = None
    key: File | None = None


class Breaker(Shape):
    """How much may be under way at once to an upstream; what exceeds it is answered 503 at once."""

    connections: Count = 1024
    pending: Count = 1024
    requests: Count = 4096
    retries: Count = 16


class Outliers(Shape):
    """When an endpoint that fails is left out for a while: a row of failures, or a part of an interval's requests.

    `most` is the percentage of endpoints that may be out at once. With 100 the last one may be, and the upstream then
    rests as a whole.
    """

    consecutive_failures: Count | None = None
    failure_percent: Annotated[Count, Field(le=100)] | None = None
    volume: Count = 10
    interval: Duration = 10 * SECOND
    eject: Duration = 30 * SECOND
    longest: Duration = 5 * MINUTE
    most: Annotated[Count, Field(le=100)] = 50

    def row(self) -> int | None:
        """How many failures in a row are too many: what is named, or 5 where nothing else is; None for any number."""
        if self.consecutive_failures is None and self.failure_percent is None:
            return _ROW
        return self.consecutive_failures


class Health(Shape):
    """An active health check: gRPC health of `service`, or an HTTP GET of `path`."""

    path: Text | None = None
    service: Text | None = None
    interval: Duration = 10 * SECOND
    timeout: Duration = SECOND
    unhealthy: Count = 3
    healthy: Count = 2


class Upstream(Shape):
    """A service behind the gateway. Endpoints with host names are resolved by DNS, all their addresses are used."""

    endpoints: Annotated[tuple[Socket, ...], Field(min_length=1)]
    protocol: Literal["grpc", "http", "http2"] = "http"
    descriptors: File | None = None
    services: tuple[Text, ...] = ()
    tls: UpstreamTls | None = None
    balancing: Literal["least-request", "round-robin", "random"] = "least-request"
    connect_timeout: Duration = 250 * MILLISECOND
    timeout: Duration = 2500 * MILLISECOND
    idle_timeout: Duration = 60 * SECOND
    breaker: Breaker = Breaker()
    outliers: Outliers | None = None
    health: Health | None = None
    response: Size = 10 << 20
    audience: Text | None = None
