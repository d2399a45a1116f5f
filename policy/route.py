"""Routes: what is matched, what the caller must have, and how the request is carried on."""

import re
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from model.snapshot import Access, Kind
from policy.host import Host
from policy.plane import Answers, Cors
from policy.scalar import DISTINCT, Duration, HeaderName, Name, Network, Size, matching, scalar
from policy.shape import AnswerField, Count, ErrorStyle, Flag, LimitEntry, Shape, Text, Whole

SAFE = frozenset({"GET", "HEAD"})

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
# What stands as itself in a path (RFC 3986 section 3.3), and brackets: Envoy escapes all else before it matches.
_PATH = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@/{}\[\]-]{0,1023}", re.ASCII)
_PATH_WORDS = "a path that begins with / and has no query and nothing that is escaped in a path, such as spaces, % or ü"
Pathname = Annotated[str, *scalar(matching(_PATH, _PATH_WORDS), _PATH_WORDS, pattern=f"^{_PATH.pattern}$")]


class Match(Shape):
    """What a request must look like: a whole path, in which `{name}` stands for one segment, or a path prefix."""

    path: Pathname | None = None
    prefix: Pathname | None = None
    methods: tuple[Method, ...] = ()
    headers: Annotated[dict[HeaderName, Text], DISTINCT] = Field(default_factory=dict)
    hosts: tuple[Host, ...] = ()

    @model_validator(mode="after")
    def _one_path(self) -> Self:
        if (self.path is None) == (self.prefix is None):
            found = "neither path nor prefix" if self.path is None else "both path and prefix"
            raise PydanticCustomError("expected", "{words}", {"words": "exactly one of them", "found": found})
        return self

    @property
    def place(self) -> tuple[object, ...]:
        """What it matches, methods aside."""
        return self.path, self.prefix, tuple(sorted(self.headers.items())), self.hosts

    @property
    def safe(self) -> bool:
        """Whether every method that it matches is safe (RFC 9110 section 9.2.1)."""
        return bool(self.methods) and set(self.methods) <= SAFE


class Requirement(Shape):
    """What the caller must have, beyond a valid credential (see `model.snapshot.Requirement`)."""

    scopes: tuple[Text, ...] = ()
    roles: tuple[Text, ...] = ()
    psd2_roles: tuple[Literal["PSP_AS", "PSP_PI", "PSP_AI", "PSP_IC"], ...] = ()
    tiers: tuple[Name, ...] = ()
    claims: dict[Text, Annotated[tuple[Text, ...], Field(min_length=1)]] = Field(default_factory=dict)
    networks: tuple[Network, ...] = ()
    bound: Flag = False


class Retry(Shape):
    """When and how often a request is sent again. `attempts` counts the retries, not the first try."""

    on: tuple[Literal["connect-failure", "refused-stream", "reset", "gateway-error"], ...] = ("connect-failure",)
    attempts: Annotated[Whole, Field(le=10)] = 1
    per_try: Duration | None = None
    idempotent: Flag = False


class Responses(Answers):
    """What is done to the answers of a route: gRPC errors to problem documents (by ext_proc), header hygiene."""

    problems: Flag = False


class Mirror(Shape):
    """An upstream that gets a copy of a part of the requests; its answers are thrown away."""

    upstream: Name
    percent: Annotated[Count, Field(le=100)] = 100


class Route(Shape):
    """A route of one plane. Routes are tried in the order of the document; the first that matches wins."""

    id: Name
    plane: Name
    match: Match
    upstream: Name | None = None
    split: dict[Name, Whole] = Field(default_factory=dict)
    mirrors: tuple[Mirror, ...] = ()
    access: Access | None = None
    credentials: tuple[Kind, ...] = ()
    application: Flag | None = None
    require: Requirement = Requirement()
    limits: dict[Name, LimitEntry] = Field(default_factory=dict)
    tier_limits: Flag = True
    timeout: Duration | None = None
    idle_timeout: Duration | None = None
    retry: Retry | None = None
    stream: Flag = False
    websocket: Flag = False
    body: Size | None = None
    transcode: Flag = False
    rewrite: Pathname | None = None
    responses: Responses | None = None
    context: Flag = True
    context_per_request: Flag = False
    strip_credentials: Flag = True
    answer_fields: tuple[AnswerField, ...] | None = None
    error_style: ErrorStyle | None = None
    cors: Cors | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """The upstreams that serve it, the one named first in front."""
        return (self.upstream,) if self.upstream is not None else tuple(self.split)

    @property
    def reads(self) -> bool:
        """Whether it only reads: as the document says, else by its methods."""
        return self.access is Access.READ if self.access is not None else self.match.safe
