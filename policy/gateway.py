"""The gateway document as a whole: its sections, and the files that it names."""

import posixpath
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PrivateAttr

from model.instant import DAY, MILLISECOND, MINUTE, SECOND
from policy.fault import Fault
from policy.identity import Consumer, Introspection, Issuer, Tier
from policy.plane import Plane, Socket
from policy.route import Route
from policy.scalar import DISTINCT, Address, Duration, HeaderName, Name, Secret, Size
from policy.shape import AnswerField, Count, ErrorStyle, File, Flag, Shape, Text, Whole
from policy.tree import Where
from policy.upstream import Upstream

SIDECAR = "wardgate"
"""The name of the cluster of wardgate itself."""

IDENTITY_PREFIXES = ("x-authenticated-", "x-envoy-", "x-verified-", "x-forwarded-")
"""Families of request headers that only the gateway may send: removed before anything reads them."""

_IDENTITIES = ("x-user-roles", "x-tenant-id", "client-cert", "client-cert-chain")
_ADDRESSES = ("forwarded", "x-real-ip", "true-client-ip")
IDENTITY_HEADERS = (*_IDENTITIES, *_ADDRESSES)
"""Request headers in which gateways and services hand identities around, beside the families of IDENTITY_PREFIXES."""


Member = Literal["kind", "client_id", "sub", "tier", "tenant", "organisation", "scopes", "roles", "psd2_roles"]


class Context(Shape):
    """How the caller context is minted (see `model.snapshot.Context`). `plain` maps header names to members of it."""

    issuer: Text | None = None
    lifetime: Duration = 30 * SECOND
    rotation: Duration = DAY
    overlap: Duration = 10 * MINUTE
    max_size: Size = 4096
    header: HeaderName = "x-verified-caller-context"
    plain: Annotated[dict[HeaderName, Member], DISTINCT] = Field(default_factory=dict)


class Store(Shape):
    """Where limits are counted (see `model.snapshot.Store`). The secrets are `env:NAME` or `file:PATH`."""

    kind: Literal["memory", "redis"] = "redis"
    topology: Literal["single", "sentinel", "cluster"] = "single"
    urls: tuple[Text, ...] = ()
    service: str = ""
    prefix: Text = "wardgate"
    username: str = ""
    password: Secret = ""
    hash_key: Secret = ""
    ca: File | None = None
    certificate: File | None = None
    key: File | None = None
    budget: Duration = 5 * MILLISECOND
    leases: Flag = True
    share: Annotated[Whole, Field(le=1000)] = 0


class Revocation(Shape):
    """Where revocations come from (see `model.snapshot.Revocation`). `redis` is `store`, or an address of its own."""

    redis: Text | None = None
    files: tuple[File, ...] = ()
    max_age: Duration | None = None


def _spell_out(value: object) -> object:
    if value == "memory":
        return {"kind": "memory"}
    return {"urls": [part.strip() for part in value.split(",")]} if isinstance(value, str) else value


class Sidecar(Shape):
    """Where Envoy finds wardgate and how long it waits. `workers` sockets with .0, .1, ... where more than one."""

    address: Socket
    timeout: Duration = 250 * MILLISECOND
    process_timeout: Duration = 250 * MILLISECOND
    workers: Annotated[Count, Field(le=64)] = 1


class Limits(Shape):
    """What a request may measure before anybody looks at it."""

    body: Size = 10 << 20
    headers: Annotated[Count, Field(le=1000)] = 100
    header_size: Size = 60 << 10
    url: Size = 8 << 10
    connections: Count = 50_000
    streams: Annotated[Count, Field(le=10_000)] = 100
    headers_timeout: Duration = 10 * SECOND
    request_timeout: Duration = 60 * SECOND
    idle_timeout: Duration = 300 * SECOND


class Problems(Shape):
    """How refusals look where a route does not say otherwise."""

    style: ErrorStyle = "problem"
    fields: tuple[AnswerField, ...] = ("draft", "remaining")


class Document(Shape):
    """One gateway. Made by `policy.document.load_document` only, which also reads the files that it names."""

    gateway: Name
    admin: Socket = Address("127.0.0.1", 9901)
    access_log: Literal["stdout", "off"] = "off"
    sidecar: Sidecar
    store: Annotated[Store, BeforeValidator(_spell_out, json_schema_input_type=str | Store)] = Store(kind="memory")
    context: Context = Context()
    limits: Limits = Limits()
    problems: Problems = Problems()
    planes: Annotated[dict[Name, Plane], Field(min_length=1)]
    issuers: dict[Name, Issuer] = Field(default_factory=dict)
    introspections: dict[Name, Introspection] = Field(default_factory=dict)
    tiers: dict[Name, Tier] = Field(default_factory=dict)
    consumers: dict[Text, Consumer] = Field(default_factory=dict)
    upstreams: dict[Name, Upstream] = Field(default_factory=dict)
    routes: Annotated[tuple[Route, ...], Field(min_length=1)]
    unlabelled: Name | None = None
    identity_headers: tuple[HeaderName, ...] = IDENTITY_HEADERS
    api_keys: tuple[File, ...] = ()
    revocation: Revocation = Revocation()

    _folder: Path = PrivateAttr(default=Path())
    _contents: dict[str, bytes] = PrivateAttr(default_factory=dict)
    _warnings: tuple[Fault, ...] = PrivateAttr(default=())

    @property
    def warnings(self) -> tuple[Fault, ...]:
        """What is allowed and probably not meant."""
        return self._warnings

    def hidden(self) -> set[str]:
        """Give the names of the request headers that only the gateway may send, beside those of IDENTITY_PREFIXES."""
        return {*self.identity_headers, self.context.header, *self.context.plain}

    def file(self, name: str) -> str:
        """Give the absolute path of a file that the document names."""
        return posixpath.normpath(self._folder / name)

    def place(self, text: str) -> str:
        """Give `file:PATH` with an absolute path; what begins otherwise (an address, `env:NAME`) stays as it is."""
        return f"file:{self.file(text.removeprefix('file:'))}" if text.startswith("file:") else text

    def content(self, name: str) -> bytes:
        """Give the bytes of a trust store or descriptor set, as they were when the document was loaded."""
        return self._contents[name]

    def sockets(self) -> tuple[Address, ...]:
        """Give the sidecar's addresses, one per worker: `.0`, `.1` behind a Unix socket, ports from the named one on.

        A relative Unix socket is relative to the document. A host name stands for as many sidecars as it resolves to.
        """
        address, workers = self.sidecar.address, self.sidecar.workers
        if not address.path:
            return tuple(replace(address, port=address.port + index) for index in range(workers))
        path = self.file(address.path)
        return tuple(Address("", 0, path if workers == 1 else f"{path}.{index}") for index in range(workers))

    def needed_files(self) -> dict[Where, str]:
        """Give the files that compiling needs the bytes of, by the place where the document names them."""
        trust: dict[Where, str] = {
            ("planes", name, "client_certificate", "trust"): plane.client_certificate.trust
            for name, plane in self.planes.items()
            if plane.client_certificate is not None
        }
        descriptors: dict[Where, str] = {
            ("upstreams", name, "descriptors"): upstream.descriptors
            for name, upstream in self.upstreams.items()
            if upstream.descriptors is not None
        }
        return {**trust, **descriptors}

    def attach(self, folder: Path, contents: dict[str, bytes], warnings: Sequence[Fault]) -> None:
        """Say where the document stands, what its files hold, and what is doubtful about it."""
        self._folder = folder
        self._contents = contents
        self._warnings = tuple(warnings)
