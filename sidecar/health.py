"""grpc.health.v1.Health (Check and Watch) over one state: which services want calls.

Follows grpc's health checking protocol: an unknown service is NOT_FOUND for Check and SERVICE_UNKNOWN for Watch.
"""

import asyncio
from collections.abc import AsyncIterator, Collection

from google.protobuf.message import DecodeError
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from model.rpc import RpcError
from sidecar.server import NOT_FOUND, Method

INVALID_ARGUMENT = 3

Status = HealthCheckResponse.ServingStatus


class Health:
    """Whether this process wants calls. Starts as not serving; `drain` is final."""

    def __init__(self, services: Collection[str]) -> None:
        self._services = frozenset(services) | {""}
        self._serving: frozenset[str] = frozenset()
        self._draining = False
        self._closed = False
        self._changed = asyncio.Event()

    @property
    def serving(self) -> bool:
        """True while new calls are wanted, at least by one service."""
        return bool(self._serving) and not self._draining

    @property
    def draining(self) -> bool:
        """True from the stop signal on."""
        return self._draining

    def serve(self, services: Collection[str]) -> None:
        """Say which services want calls from now on; the sidecar as a whole ("") serves while one of them does."""
        serving = frozenset(services)
        if serving != self._serving:
            self._serving = serving
            self._announce()

    def drain(self) -> None:
        """NOT_SERVING from now on and for good."""
        self._draining = True
        self._announce()

    def close(self) -> None:
        """End every Watch, so that the server need not wait for their callers."""
        self._closed = True
        self._announce()

    def methods(self) -> list[Method]:
        """List the two methods of the service."""
        return [
            Method("/grpc.health.v1.Health/Check", unary=self.check),
            Method("/grpc.health.v1.Health/Watch", stream=self.watch),
        ]

    async def check(self, data: bytes) -> bytes:
        """Answer Check. Raises RpcError NOT_FOUND for a service that is not ours."""
        service = _read_service(data)
        if service not in self._services:
            raise RpcError(NOT_FOUND, "unknown service")
        return self._write_status(service)

    async def watch(self, requests: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Answer Watch: the state now, then each change of it, until the process stops."""
        service = await _first_request(requests)
        sent = b""
        while True:
            changed = self._changed
            status = self._write_status(service)
            if status != sent:
                yield status
                sent = status
            if self._closed:
                return
            await changed.wait()

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _write_status(self, service: str) -> bytes:
        if service not in self._services:
            status = Status.Value("SERVICE_UNKNOWN")
        else:
            serving = self.serving and (not service or service in self._serving)
            status = Status.Value("SERVING" if serving else "NOT_SERVING")
        return HealthCheckResponse(status=status).SerializeToString()


def _read_service(data: bytes) -> str:
    try:
        return HealthCheckRequest.FromString(data).service
    except DecodeError as error:
        raise RpcError(INVALID_ARGUMENT, "not a HealthCheckRequest") from error


async def _first_request(requests: AsyncIterator[bytes]) -> str:
    async for data in requests:
        return _read_service(data)
    raise RpcError(INVALID_ARGUMENT, "a Watch without a request")
