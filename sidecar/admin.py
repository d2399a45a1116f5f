"""The HTTP side for operators and upstreams: liveness, readiness, metrics, key set, snapshot, explain.

Meant for a loopback or cluster-internal address; nothing on it changes anything.
"""

import json
from collections.abc import Awaitable, Mapping
from typing import Protocol

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from sidecar.question import RateQuestion
from sidecar.server import AddressUnusable, claim_socket, socket_path

JWKS_MAX_AGE = 60
"""Seconds for which an upstream may keep the key set; far below the overlap of a rotation."""


class Operated(Protocol):
    """What the admin side shows of a process."""

    async def ready(self) -> str | None:
        """Give None when ready, else why not."""
        ...

    async def metrics_text(self) -> bytes:
        """Write the Prometheus text format."""
        ...

    async def jwks(self) -> str:
        """Write the caller context's public keys as a JWK set (RFC 7517 section 5)."""
        ...

    async def snapshot(self) -> dict[str, object]:
        """Give version, when it was loaded, and the faults of the last edit that was refused."""
        ...

    async def explain(self, question: Mapping[str, str]) -> dict[str, object]:
        """Say how a request would be limited, without counting it. Raises ValueError with what is wrong."""
        ...

    async def explain_rates(self, question: RateQuestion) -> dict[str, object]:
        """Say which rules a question to the rate limit service meets, without counting it. Raises ValueError."""
        ...


class Admin:
    """The admin server of one process."""

    def __init__(self, operated: Operated, address: str) -> None:
        self._operated = operated
        self._address = address
        application = web.Application(client_max_size=64 * 1024)
        application.add_routes(
            [
                web.get("/healthz", self._live),
                web.get("/readyz", self._ready),
                web.get("/metrics", self._metrics),
                web.get("/.well-known/jwks.json", self._jwks),
                web.get("/snapshot", self._snapshot),
                web.get("/explain", self._explain),
                web.get("/explain/ratelimit", self._explain_rates),
            ]
        )
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)

    async def start(self) -> str:
        """Bind and serve; the address in use. Raises AddressUnusable."""
        path = socket_path(self._address)
        await self._runner.setup()
        try:
            if path is not None:
                claim_socket(path)
                await web.UnixSite(self._runner, str(path)).start()
                return self._address
            host, _, port = self._address.rpartition(":")
            await web.TCPSite(self._runner, host.strip("[]"), int(port)).start()
        except OSError as error:
            await self._runner.cleanup()
            raise AddressUnusable(f"{self._address}: {error.strerror or error}") from error
        return f"{host}:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Close, requests in flight first."""
        await self._runner.cleanup()

    async def _live(self, _request: web.Request) -> web.Response:
        return web.Response(text="alive\n")

    async def _ready(self, _request: web.Request) -> web.Response:
        missing = await self._operated.ready()
        return web.Response(status=200 if missing is None else 503, text=f"{missing or 'ready'}\n")

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=await self._operated.metrics_text(), headers={"content-type": CONTENT_TYPE_LATEST})

    async def _jwks(self, _request: web.Request) -> web.Response:
        return web.Response(
            text=await self._operated.jwks(),
            content_type="application/jwk-set+json",
            headers={"cache-control": f"public, max-age={JWKS_MAX_AGE}"},
        )

    async def _snapshot(self, _request: web.Request) -> web.Response:
        return web.json_response(await self._operated.snapshot(), dumps=_dump_pretty)

    async def _explain(self, request: web.Request) -> web.Response:
        return await _answer(self._operated.explain(request.query))

    async def _explain_rates(self, request: web.Request) -> web.Response:
        question = request.query.get("domain", ""), request.query.getall("descriptor", [])
        return await _answer(self._operated.explain_rates(question))


async def _answer(explaining: Awaitable[dict[str, object]]) -> web.Response:
    try:
        return web.json_response(await explaining, dumps=_dump_pretty)
    except ValueError as error:
        return web.json_response({"error": str(error)}, status=400, dumps=_dump_pretty)


def _dump_pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=True) + "\n"
