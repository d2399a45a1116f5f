"""The policy that the services hold in memory: immutable, compiled from one gateway document.

Every value is plain (str, int, bool, tuple, dict of those and of the types here), so that a snapshot can be written
as JSON, signed, and read back equal. Times are nanoseconds.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from model.instant import DAY, MINUTE, SECOND, Duration, Instant
from model.quota import Quota


class Kind(StrEnum):
    """The kinds of credential that a plane or a route can accept."""

    NONE = "none"
    JWT = "jwt"
    API_KEY = "api-key"
    ASSERTION = "assertion"
    CERTIFICATE = "certificate"
    OPAQUE = "opaque"


class Access(StrEnum):
    """Whether a route reads or writes: decides what passes while the identity side is away."""

    READ = "read"
    WRITE = "write"


class Dimension(StrEnum):
    """What a limit is counted by; several make one key."""

    CREDENTIAL = "credential"
    CLIENT = "client"
    TENANT = "tenant"
    SUBJECT = "subject"
    ROUTE = "route"
    ADDRESS = "address"
    ORGANISATION = "organisation"


@dataclass(frozen=True, slots=True)
class Limit:
    """A quota, the dimensions that make its key, and what one request costs."""

    quota: Quota
    per: tuple[Dimension, ...]
    cost: int = 1


@dataclass(frozen=True, slots=True)
class Override:
    """A quota that stands in for the one of the same name, from one instant until another (None: open)."""

    quota: Quota
    since: Instant | None = None
    until: Instant | None = None


@dataclass(frozen=True, slots=True)
class Tier:
    """A plan: the limits that its members meet on every route, and its rank under saturation (lower is shed first)."""

    id: str
    limits: tuple[Limit, ...] = ()
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Assertion:
    """How a consumer signs for itself (RFC 7523): `jwks` holds its keys, the rest is what its assertions may do.

    `jwks` is a URL as of `Issuer`. An assertion grants what stands here and nothing that it says of itself.
    """

    jwks: str
    algorithms: tuple[str, ...] = ("EdDSA", "Ed25519", "ES256", "PS256")
    scopes: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Consumer:
    """A registered client of the gateway.

    `organisations` are organizationIdentifiers (2.5.4.97) of the certificates it may come with; empty: any.
    `assertion` None: it cannot sign for itself.
    """

    client_id: str
    tier: str
    tenant: str = ""
    organisations: tuple[str, ...] = ()
    overrides: tuple[Override, ...] = ()
    assertion: Assertion | None = None


@dataclass(frozen=True, slots=True)
class Issuer:
    """An issuer of tokens and how far it is believed.

    `jwks` is an https URL, an http URL whose host is loopback, or a file: URL. `algorithms` are JWS names. `types` are
    accepted `typ` values in lower case without "application/"; "" stands for an absent one. `tier` is the tier of its
    clients where no consumer is registered; None refuses unregistered clients.
    """

    id: str
    issuer: str
    jwks: str
    audiences: tuple[str, ...]
    algorithms: tuple[str, ...] = ("EdDSA", "Ed25519", "ES256", "RS256", "PS256")
    types: tuple[str, ...] = ("at+jwt", "jwt", "")
    leeway: Duration = 10 * SECOND
    refresh: Duration = 5 * MINUTE
    cooldown: Duration = 30 * SECOND
    max_stale: Duration = DAY
    max_lifetime: Duration | None = None
    required_claims: tuple[str, ...] = ()
    client_claim: str = "client_id"
    scope_claim: str = "scope"
    roles_claim: str = "roles"
    tenant_claim: str = ""
    tier_claim: str = ""
    tier: str | None = None


@dataclass(frozen=True, slots=True)
class Introspection:
    """An RFC 7662 endpoint for opaque tokens. `secret` names an environment variable or a file, never the secret.

    `cache` is how long an answer serves without a question, `max_stale` how long beyond that it serves routes that
    read while the endpoint is away.
    """

    id: str
    endpoint: str
    client_id: str
    secret: str
    audiences: tuple[str, ...] = ()
    cache: Duration = 30 * SECOND
    negative_cache: Duration = 5 * SECOND
    max_stale: Duration = 5 * MINUTE
    tier: str | None = None


@dataclass(frozen=True, slots=True)
class CertificateProfile:
    """How a client certificate is judged.

    `profile` is "qwac-psd2", "obwac" or "mtls". `anchors` are PEM certificates. `revocation` is "off", "soft" (an
    unknown status passes and is counted) or "hard" (refused). `require_eku` False accepts a leaf without an extended
    key usage; one that has an EKU must always name clientAuth. `policies` are accepted policy OIDs beside those of
    the profile. `crls` are file or URL sources of CRLs read in the background. `schemes` are the accepted schemes of
    the organizationIdentifier: "PSD", and by choice "NTR", "VAT", "LEI", which carry no authorisation number. `blocked`
    holds organizationIdentifiers, "issuer RFC 4514 name#serial hex" or "spki:" and the SHA-256 of a public key in hex.
    """

    profile: str
    anchors: tuple[str, ...]
    required: bool = True
    revocation: str = "off"
    require_eku: bool = False
    account_servicing_implies_all: bool = False
    policies: tuple[str, ...] = ()
    crls: tuple[str, ...] = ()
    ocsp_hosts: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ("PSD",)
    blocked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plane:
    """A listener with its own client certificates and accepted credentials.

    `origin` is the external scheme and authority ("https://api.example") from which a DPoP `htu` is built, and the
    audience of assertions. `introspection` is the id of the endpoint that knows its opaque tokens. `address_header` is
    the request header in which Envoy tells the client's address where that is not the peer's, "" where it is.
    `application` asks for an API key that names the application, beside the user's own credential. `issuers` are the
    ids of those whose tokens are accepted here, empty for all.
    """

    id: str
    credentials: tuple[Kind, ...]
    certificate: CertificateProfile | None = None
    origin: str = ""
    realm: str = "wardgate"
    flood: Limit | None = None
    anonymous_tier: str = ""
    introspection: str = ""
    address_header: str = ""
    application: bool = False
    issuers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Requirement:
    """What the caller must have, beyond a valid credential. Empty tuples demand nothing.

    `scopes`: all of them. `roles`: any of them (from the token). `psd2_roles`: any of them, from the certificate.
    `tiers`: any of them. `claims`: each named claim must hold one of the listed values. `networks`: CIDR ranges, any.
    `bound` demands a sender-constrained token.
    """

    scopes: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    psd2_roles: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    claims: tuple[tuple[str, tuple[str, ...]], ...] = ()
    networks: tuple[str, ...] = ()
    bound: bool = False


@dataclass(frozen=True, slots=True)
class Response:
    """What ext_proc does to the responses of a route."""

    problems: bool = False
    strip: tuple[str, ...] = ()
    set: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """A route as the sidecar knows it: Envoy matched it, the sidecar judges it.

    `plane` is the plane it lives on. `credentials` empty means those of the plane. `audience` is the `aud` of the
    caller context, the upstream's name by default. `context` False sends no caller context; `context_per_request`
    binds each context to its request, at the price of a signature each. `strip_credentials` removes the credential
    before the upstream sees the request. `answer_fields` are the rate limit header families that an answer carries
    ("draft", "remaining", "x-ratelimit", "ratelimit-legacy"); `error_style` is "problem" or "tpp-messages".
    `application` is the plane's where it is None.
    """

    id: str
    plane: str
    upstream: str
    audience: str
    access: Access = Access.WRITE
    credentials: tuple[Kind, ...] = ()
    requirement: Requirement = Requirement()
    limits: tuple[Limit, ...] = ()
    tier_limits: bool = True
    context: bool = True
    context_per_request: bool = False
    strip_credentials: bool = True
    stream: bool = False
    answer_fields: tuple[str, ...] = ("draft", "remaining")
    error_style: str = "problem"
    response: Response | None = None
    application: bool | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """How the caller context is minted. `lifetime` and `rotation` in nanoseconds; `max_size` in bytes.

    `plain` are headers that say a member of it in clear, for upstreams that verify nothing: (name, member).
    """

    issuer: str
    lifetime: Duration = 30 * SECOND
    rotation: Duration = DAY
    overlap: Duration = 10 * MINUTE
    max_size: int = 4096
    header: str = "x-verified-caller-context"
    plain: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Store:
    """Where limits are counted: "memory", or one or more Redis URLs.

    `urls`: redis://, rediss:// or unix://; `topology` is "single", "sentinel" or "cluster". `share` is the part of each
    limit, in thousandths, that an instance may spend while the store is away; 0 takes it from the heartbeat count.
    `hash_key` is a secret of the fleet under which the names of counters are hashed; "" hashes with the prefix alone.
    """

    kind: str = "memory"
    topology: str = "single"
    urls: tuple[str, ...] = ()
    service: str = ""
    prefix: str = "wardgate"
    username: str = ""
    password: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    budget: Duration = 5_000_000
    leases: bool = True
    share: int = 0
    hash_key: str = ""


@dataclass(frozen=True, slots=True)
class Revocation:
    """Where revocations come from: a feed in Redis (None: no feed) and files.

    `max_age` is how old the feed's last word may be before routes that write refuse (503); None: however old.
    """

    feed: Store | None = None
    files: tuple[str, ...] = ()
    max_age: Duration | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that the services decide from, of one version of one gateway document.

    `version` is the document's content digest (hex), so that equal policies are equal versions. `unlabelled` names
    the route whose policy holds for a request without a route id; None refuses it.
    """

    gateway: str
    version: str
    planes: dict[str, Plane]
    routes: dict[str, Route]
    issuers: dict[str, Issuer] = field(default_factory=dict)
    introspections: dict[str, Introspection] = field(default_factory=dict)
    tiers: dict[str, Tier] = field(default_factory=dict)
    consumers: dict[str, Consumer] = field(default_factory=dict)
    context: Context = Context(issuer="wardgate")
    store: Store = Store()
    unlabelled: str | None = None
    remove_headers: tuple[str, ...] = ()
    api_keys: tuple[str, ...] = ()
    revocation: Revocation = Revocation()
