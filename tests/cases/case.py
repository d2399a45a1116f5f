"""Decisions as data: what stands in the YAML files of this folder, and how a case is played.

A case starts from the small gateway of tests/authz/build.py, in which a partner asks for accounts with a good token,
and says what is different. `schema.json` is written from these models: `python -m tests.cases.case`.
"""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from ruamel.yaml import YAML

from authz.apikey import hash_key
from authz.denylist import Denylist, Entry, Subject
from authz.keytable import index_keys
from authz.resident import FixedKeys
from model.instant import MINUTE
from model.quota import Quota
from model.reason import Reason
from model.snapshot import Access, Dimension, Kind, Limit, Requirement
from tests.authz import build, pki, tokens
from tests.authz.tokens import NOW_S

FOLDER = Path(__file__).parent
SCHEMA = FOLDER / "schema.json"


class Part(BaseModel):
    """A part of a case; a word that is not known is a mistake."""

    model_config = ConfigDict(extra="forbid")


class Policy(Part):
    """What is different about the gateway."""

    credentials: list[Kind] = Field([Kind.JWT], description="What the plane accepts")
    certificate: Literal["none", "optional", "required"] = "optional"
    scopes: list[str] = Field(["accounts"], description="All of them are needed")
    roles: list[str] = Field([], description="Any of them is needed, from the token")
    psd2_roles: list[str] = Field([], description="Any of them is needed, from the certificate")
    tiers: list[str] = []
    claims: dict[str, list[str]] = {}
    networks: list[str] = []
    bound: bool = Field(False, description="The token must be bound to its sender")
    access: Access = Access.READ
    stream: bool = False
    context_per_request: bool = False
    strip_credentials: bool = True
    organisations: list[str] = Field([], description="Those that client-1 is registered with")
    strangers: str | None = Field(None, description="The tier of unregistered clients")
    limits: dict[str, int] = Field({}, description="Quotas of the route: how many may pass")
    flood: int | None = Field(None, description="How many requests of one address may pass")
    denylist: list[dict[str, str]] = []
    api_keys: dict[str, str] = Field({}, description="The key in clear, and its client")
    resting: list[str] = Field([], description="Upstreams whose breaker is open")
    saturation: float = 0.0
    issuer_away: bool = Field(False, description="The keys of the issuer are past their bound")


class Asked(Part):
    """What is different about the request. Times in claims are seconds from now."""

    token: dict[str, Any] | None = Field({}, description="Claims that differ; null for no token")
    without: list[str] = Field([], description="Claims that are left out")
    header: dict[str, Any] = Field({}, description="Members of the token's header that differ")
    forged: bool = Field(False, description="Signed by a key of somebody else under the same kid")
    bound: bool = Field(False, description="The token is bound to the certificate")
    scheme: str = "Bearer"
    certificate: dict[str, Any] | None = Field(None, description="Options of a QWAC; null for none")
    headers: dict[str, str] = {}
    lines: list[tuple[str, str]] = Field([], description="More header lines, which may repeat a name")
    path: str = "/v1/accounts"
    method: str = "GET"
    address: str = "192.0.2.7"
    route: str | None = "accounts"
    times: int = Field(1, description="How often it is sent; the last verdict counts")


class Want(Part):
    """The verdict: `deny` or what an allowance must hold."""

    deny: str | None = Field(None, description="A reason of docs/reasons.md")
    status: int | None = None
    challenge: str | None = Field(None, description="Stands in one of the WWW-Authenticate fields")
    retry_after: int | None = None
    document: dict[str, Any] = Field({}, description="Members of the problem document")
    caller: dict[str, str] = {}
    context: dict[str, Any] = Field({}, description="Members of the caller context; null for an absent one")
    removed: list[str] = Field([], description="Header fields that the upstream must not see")
    removed_query: list[str] = []

    @field_validator("deny")
    @classmethod
    def is_reason(cls, value: str | None) -> str | None:
        """Refuse a reason that there is not; the schema leaves them open, so that it does not change with each."""
        return value if value is None else Reason(value).value


class Case(Part):
    """One decision."""

    case: str = Field(description="One English sentence")
    policy: Policy = Policy()
    request: Asked = Asked()
    want: Want


def load_cases() -> list[Case]:
    """Read every case of the folder. Raises pydantic's ValidationError for a word that is not known."""
    yaml = YAML(typ="safe")
    return [Case(**entry) for path in sorted(FOLDER.glob("*.yaml")) for entry in yaml.load(path)]


def open_house(policy: Policy) -> Any:
    """Build the gateway of a case."""
    trusted = {"tier": policy.strangers}
    profile = None
    if policy.certificate != "none":
        profile = pki.profile_of(build.root(), required=policy.certificate == "required")
    listed = Denylist()
    for entry in policy.denylist:
        listed.add(Entry(Subject(entry["subject"]), entry["name"], entry.get("scope", "")))
    snapshot = build.snapshot(
        planes=(build.plane(credentials=tuple(policy.credentials), certificate=profile, flood=_flood(policy)),),
        routes=(_route(policy),),
        consumers=(
            build.consumer(organisations=tuple(policy.organisations)),
            build.consumer(client_id="internal-1", tier="internal", tenant=""),
        ),
        issuer=tokens.issuer(**trusted),
    )
    until = build.NOW - 1 if policy.issuer_away else build.NOW + 60 * MINUTE
    return build.resident(
        snapshot,
        keys=FixedKeys(tokens.trust(until=until, **trusted)),
        denylist=listed,
        api_keys=index_keys(_key_lines(policy.api_keys)),
        resting=frozenset(policy.resting),
        saturation=policy.saturation,
    )


def _route(policy: Policy) -> Any:
    needed = Requirement(
        scopes=tuple(policy.scopes),
        roles=tuple(policy.roles),
        psd2_roles=tuple(policy.psd2_roles),
        tiers=tuple(policy.tiers),
        claims=tuple((name, tuple(values)) for name, values in policy.claims.items()),
        networks=tuple(policy.networks),
        bound=policy.bound,
    )
    limits = [Limit(_quota(name, many), (Dimension.CLIENT,)) for name, many in policy.limits.items()]
    return build.route(
        requirement=needed,
        limits=tuple(limits),
        access=policy.access,
        stream=policy.stream,
        context_per_request=policy.context_per_request,
        strip_credentials=policy.strip_credentials,
    )


def _flood(policy: Policy) -> Limit | None:
    return None if policy.flood is None else Limit(_quota("flood", policy.flood), (Dimension.ADDRESS,))


def _quota(name: str, many: int) -> Quota:
    return Quota(name, count=many, period=MINUTE, burst=many)


def _key_lines(keys: dict[str, str]) -> list[bytes]:
    records = [
        {"id": text.partition(".")[0], "sha256": hash_key(text), "client_id": client, "scopes": ["accounts"]}
        for text, client in keys.items()
    ]
    return [json.dumps(record).encode() for record in records]


def write_request(asked: Asked) -> bytes:
    """Write the CheckRequest of a case, with raw header lines."""
    peer = None if asked.certificate is None else build.certificate(**_frozen(asked.certificate))
    lines = [*asked.headers.items(), *asked.lines]
    if asked.token is not None:
        lines.insert(0, ("authorization", f"{asked.scheme} {_token(asked, peer)}"))
    request = build.request(
        bearer=None,
        path=asked.path,
        method=asked.method,
        address=asked.address,
        route=asked.route,
        certificate=peer or "",
    )
    return build.check_bytes(request, lines=lines)


def _token(asked: Asked, peer: str | None) -> str:
    claims = dict(asked.token or {})
    for name in ("exp", "iat", "nbf"):
        if isinstance(claims.get(name), int):
            claims[name] += NOW_S
    if asked.bound and peer is not None:
        claims["cnf"] = build.confirmation(peer)
    header = {**({"kid": "ed"} if asked.forged else {}), **asked.header}
    return tokens.token("ed-2" if asked.forged else "ed", header=header, without=tuple(asked.without), **claims)


def _frozen(options: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}


def write_schema() -> str:
    """Write the JSON Schema of a file of cases, for editors."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Cases of decisions",
        "type": "array",
        "items": {"$ref": "#/$defs/Case"},
    }
    own = Case.model_json_schema(ref_template="#/$defs/{model}")
    schema["$defs"] = {**own.pop("$defs"), "Case": own}
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(write_schema(), encoding="utf-8")
