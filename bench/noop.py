"""A server that decides nothing: what each call costs before anybody thinks. `python -m bench.noop SERVER ADDRESS`."""

import asyncio
import signal
import sys

import uvloop

from pb import ext_authz_pb2
from sidecar.server import Method, Options
from sidecar.worker import SERVERS

CHECK = "/envoy.service.auth.v3.Authorization/Check"


def allowed() -> bytes:
    """Write the answer that lets everything pass."""
    answer = ext_authz_pb2.CheckResponse()
    answer.status.code = 0
    answer.ok_response.SetInParent()
    return answer.SerializeToString()


async def serve(name: str, address: str) -> None:
    """Answer every Check the same until SIGTERM."""
    answer = allowed()

    def check(data: bytes) -> bytes:
        del data
        return answer

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    server = SERVERS[name]([Method(CHECK, unary=check)], address, Options())
    await server.start()
    await stop.wait()
    await server.stop(0)


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], sys.argv[2]))
