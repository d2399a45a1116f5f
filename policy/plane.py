"""Planes: listeners with their TLS, client certificates, accepted credentials and first limits."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from model.snapshot import Kind
from policy.host import Domain, Origin
from policy.scalar import ADDRESS_WORDS, DISTINCT, Address, Duration, HeaderName, Name, parse_address, scalar
from policy.shape import File, Flag, LimitEntry, Shape, Text, Whole

CLIENT_ADDRESS = "x-envoy-external-address"
"""Where Envoy writes whom it takes for the client, after it has removed what a client wrote there. What it says of the
source of a connection is always the peer: the last proxy, where there are any."""
Socket = Annotated[Address, *scalar(parse_address, ADDRESS_WORDS)]


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, float) else value


Version = Annotated[Literal["1.3"], BeforeValidator(_as_text)]


class Tls(Shape):
    """The server side of TLS. 1.3 is the only version that can be asked for."""

    certificate: File
    key: File
    minimum: Version = "1.3"


class ClientCertificate(Shape):
    """How client certificates are asked for and judged (see `model.snapshot.CertificateProfile`)."""

    profile: Literal["qwac-psd2", "obwac", "mtls"]
    trust: File
    required: Flag = True
    revocation: Literal["off", "soft", "hard"] = "off"
    require_eku: Flag = False
    account_servicing_implies_all: Flag = False
    policies: tuple[Text, ...] = ()
    crls: tuple[Text, ...] = ()
    ocsp_hosts: tuple[Text, ...] = ()
    schemes: Annotated[tuple[Literal["PSD", "NTR", "VAT", "LEI"], ...], Field(min_length=1)] = ("PSD",)
    blocked: tuple[Text, ...] = ()


class Cors(Shape):
    """Cross-origin rules, answered by Envoy. `*` stands for a part of a host name, alone for any origin."""

    origins: Annotated[tuple[Origin, ...], Field(min_length=1)]
    methods: tuple[Text, ...] = ("GET", "HEAD")
    headers: tuple[HeaderName, ...] = ("authorization", "content-type", "x-request-id")
    expose: tuple[HeaderName, ...] = ("ratelimit", "ratelimit-policy", "retry-after", "x-request-id")
    credentials: Flag = False
    max_age: Duration = 600_000_000_000


class Answers(Shape):
    """Header hygiene: what is stripped from answers (a `*` at the end stands for any rest), then what is set."""

    strip: tuple[HeaderName, ...] = ()
    set: Annotated[dict[HeaderName, Text], DISTINCT] = Field(default_factory=dict)


class Plane(Shape):
    """A listener and what it believes."""

    listen: Socket
    hosts: Annotated[tuple[Domain, ...], Field(min_length=1)] = ("*",)
    origin: Text | None = None
    realm: Text = "wardgate"
    tls: Tls | None = None
    client_certificate: ClientCertificate | None = None
    proxy_protocol: Flag = False
    trusted_hops: Annotated[Whole, Field(le=16)] = 0
    request_id: Literal["generate", "preserve"] = "generate"
    credentials: Annotated[tuple[Kind, ...], Field(min_length=1)]
    anonymous_tier: Name | None = None
    introspection: Name | None = None
    application: Flag = False
    issuers: tuple[Name, ...] = ()
    flood: LimitEntry | None = None
    cors: Cors | None = None
    responses: Answers | None = None
