"""What a tour needs from a running demo: tokens, connections as any partner, and what the backends saw."""

import base64
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from demo.client import Connection, Endpoint, Headers, Reply, connect, open_context
from demo.idp import make_key, sign_token, write_claims
from demo.settings import Settings

CLIENT = "198.51.100.7"  # RFC 5737: an address of nobody
HTTP_LIMIT = aiohttp.ClientTimeout(total=10)


@dataclass(frozen=True, slots=True)
class Token:
    """A token to ask for. `forgery` is "", "none" (unsigned) or "key" (right kid, wrong key)."""

    client_id: str = "fintech-alpha"
    scope: str = "accounts"
    alg: str = "EdDSA"
    expires_in: int = 300
    forgery: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to make: as which partner, on which plane, with which token."""

    method: str
    target: str
    token: Token | None = None
    identity: str | None = "fintech-alpha"
    plane: str = "PARTNER"
    headers: Headers = ()
    body: Mapping[str, Any] | bytes | None = None


class World:
    """A running demo, seen from outside."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._tokens: dict[Token, str] = {}

    def endpoint(self, identity: str | None, plane: str = "PARTNER", source: str = CLIENT) -> Endpoint:
        """Say where and as whom to connect; `source` is the address that a load balancer in front would report."""
        host, port = self.settings.address(plane)
        context = open_context(self.settings.pki, identity)
        return Endpoint(host, port, context, source if self.settings.proxy else None)

    async def ask(self, ask: Ask) -> Reply:
        """Make one request on a connection of its own. Raises Refused."""
        async with connect(self.endpoint(ask.identity, ask.plane)) as connection:
            return await self.ask_on(connection, ask)

    async def ask_on(self, connection: Connection, ask: Ask) -> Reply:
        """Make one request on a connection that is open. Raises Refused."""
        headers = list(ask.headers)
        if ask.token is not None:
            headers.append(("Authorization", f"Bearer {await self.token(ask.token)}"))
        body = ask.body if isinstance(ask.body, bytes) else b"" if ask.body is None else json.dumps(ask.body).encode()
        if body:
            headers.append(("Content-Type", "application/json"))
        return await connection.send(ask.method, ask.target, headers, body)

    async def token(self, token: Token) -> str:
        """Have a token minted, once; a forged one is made here."""
        if token not in self._tokens:
            self._tokens[token] = await self._forge(token) if token.forgery else await self._mint(token)
        return self._tokens[token]

    async def _mint(self, token: Token) -> str:
        order = {"client_id": token.client_id, "scope": token.scope, "alg": token.alg, "expires_in": token.expires_in}
        url = f"{self.settings.url('IDP')}/token"
        async with _session() as session, session.post(url, json=order, raise_for_status=True) as response:
            return str((await response.json())["access_token"])

    async def _forge(self, token: Token) -> str:
        claims = write_claims({"client_id": token.client_id, "scope": token.scope}, time.time())
        if token.forgery == "none":
            return f"{_segment({'alg': 'none', 'typ': 'at+jwt'})}.{_segment(claims)}."
        async with _session() as session, session.get(f"{self.settings.url('IDP')}/jwks.json") as response:
            kid = next(key["kid"] for key in (await response.json())["keys"] if key["alg"] == token.alg)
        return sign_token(make_key(token.alg), token.alg, kid, claims)

    async def events(self, backend: str, **wanted: str) -> list[dict[str, Any]]:
        """Read what a backend ("ledger", "payments") saw, by the members of its events."""
        url = f"{self.settings.url(f'{backend.upper()}_JOURNAL')}/events"
        async with _session() as session, session.get(url, params=wanted, raise_for_status=True) as response:
            found: list[dict[str, Any]] = await response.json()
            return found


def unique(kind: str) -> str:
    """Make an identifier that behaves as `kind` does and can be found again in a backend's events."""
    return f"{kind}~{uuid.uuid4().hex[:12]}"


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=HTTP_LIMIT)


def _segment(members: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(members).encode()).rstrip(b"=").decode()
