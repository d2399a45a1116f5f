"""What the command line decides about a run of the sidecar, as one value that a worker process can be handed."""

from dataclasses import dataclass
from pathlib import Path

from model.instant import MILLISECOND, SECOND, Duration
from sidecar.rates import Rates
from sidecar.server import AUTO, AddressUnusable, socket_path


@dataclass(frozen=True, slots=True)
class Settings:
    """How to serve. Empty `listen` and no `workers` take those of the document; empty `admin` opens no admin side.

    `drain` is how long new calls are still answered after a stop signal, while health already says NOT_SERVING;
    `grace` how long calls in flight may take after that. `poll` is the interval at which files are read again.
    `wait` keeps the sidecar up, not ready and refusing, until a first good document is there. Without a document only
    the rate limit service answers, from the rules of `rates`.
    """

    document: Path | None
    envoy: Path | None = None
    listen: str = ""
    admin: str = ""
    state: Path | None = None
    workers: int | None = None
    server: str = AUTO
    rates: Rates | None = None
    drain: Duration = SECOND
    grace: Duration = 3 * SECOND
    poll: Duration = 250 * MILLISECOND
    socket_mode: int = 0o660
    log_level: str = "info"
    log_format: str = "json"
    log_rate: int = 1000
    wait: bool = False


def worker_address(address: str, index: int, workers: int) -> str:
    """Derive the address of one worker: the address itself where there is one, else `.<index>` or port + index.

    Raises AddressUnusable for port 0 with several workers: their ports must be known to Envoy.
    """
    if workers == 1:
        return address
    if socket_path(address) is not None:
        return f"{address}.{index}"
    host, _, port = address.rpartition(":")
    if port == "0":
        raise AddressUnusable(f"{address}: several workers need a fixed port, of which each takes the next one")
    return f"{host}:{int(port) + index}"
