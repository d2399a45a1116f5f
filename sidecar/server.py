"""The port under the services: methods are bytes to bytes, so that the gRPC server below them can be exchanged.

A method raises `model.rpc.RpcError` for an error it means; whatever else it raises is answered with status 13
(INTERNAL) by every server, never with an early OK, which Envoy would take for leave to let a request pass.
"""

import ipaddress
import logging
import socket
import stat
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from model.instant import DAY, MINUTE, SECOND, Duration

DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
UNIMPLEMENTED = 12
INTERNAL = 13
AUTO = "auto"
"""Leaves the choice of the server to the address: see `pick_server`."""
NO_MESSAGE = "the call ended without a whole message"

Unary = Callable[[bytes], bytes | Coroutine[Any, Any, bytes]]
"""Answers at once where it can: a decision that waits for nothing needs no task."""
Stream = Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]]

log = logging.getLogger("wardgate.server")


class AddressUnusable(Exception):
    """The address to listen on is malformed, taken, or not ours to bind; the text says which."""


@dataclass(frozen=True, slots=True)
class Method:
    """One gRPC method: its path ("/package.Service/Method") and either a unary or a streaming handler."""

    path: str
    unary: Unary | None = None
    stream: Stream | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """How a server treats its connections.

    `max_message` is in bytes. A connection is asked to go (GOAWAY) at `age`, spread by a tenth in both directions so
    that not all go together, and is closed `age_grace` later: a stream may last as long as somebody listens to it.
    `ping_interval` is the shortest interval of keepalive pings that is tolerated, with or without calls in flight.
    `socket_mode` is the mode of a Unix socket: 0o666 lets an Envoy of another user in.
    """

    max_message: int = 16 * 1024 * 1024
    age: Duration = 10 * MINUTE
    age_grace: Duration = DAY
    ping_interval: Duration = SECOND
    socket_mode: int = 0o660


class Server(Protocol):
    """What process.py needs of a gRPC server."""

    async def start(self) -> str:
        """Bind and serve; the address in use, with the port that the kernel chose. Raises AddressUnusable."""
        ...

    async def stop(self, grace: Duration) -> None:
        """Take no more calls, let those in flight finish within `grace`, then close."""
        ...


Opener = Callable[[Sequence[Method], str, Options], Server]


def socket_path(address: str) -> Path | None:
    """Read the path of a "unix:/path" address; None for "host:port". Raises AddressUnusable for anything else."""
    if address.startswith("unix:"):
        path = address.removeprefix("unix:").removeprefix("//")
        if not path or len(path.encode()) > 107:  # sun_path of Linux: 108 bytes with the final zero
            raise AddressUnusable(f"{address}: a socket path has 1 to 107 bytes")
        return Path(path)
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise AddressUnusable(f"{address}: expected unix:/path or host:port")
    return None


def pick_server(name: str, address: str) -> str:
    """Choose what speaks gRPC where that is open: `zttp` for peers of this machine, `grpcio` for those of others.

    zttp is young. An Envoy beside the sidecar sends it what is well formed; a network may send anything (decision 62).
    """
    if name != AUTO:
        return name
    host = address.rpartition(":")[0].strip("[]")
    near = socket_path(address) is not None or host == "localhost" or _is_loopback(host)
    return "zttp" if near else "grpcio"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which may be anybody's
        return False


def claim_socket(path: Path) -> None:
    """Remove a socket that nobody listens on. Raises AddressUnusable where somebody does, or it is no socket."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise AddressUnusable(f"{path}: {error.strerror}") from error
    if not stat.S_ISSOCK(mode):
        raise AddressUnusable(f"{path}: exists and is not a socket")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise AddressUnusable(f"{path}: {error.strerror}") from error
        else:
            raise AddressUnusable(f"{path}: another process is listening on it")
