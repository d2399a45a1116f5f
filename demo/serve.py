"""What each demo process runs: the identity provider, or one backend with its journal."""

import asyncio
import signal
import ssl

from aiohttp import web

from demo.backend import AUDIENCES, Backend, Catalogue, start_backend
from demo.guard import Guard
from demo.idp import Keys, make_app
from demo.journal import Journal, serve_journal
from demo.settings import Settings

GRACE = 1.0  # seconds for calls in flight when a backend ends


def serve_idp(settings: Settings, bind: str) -> None:
    """Serve the identity provider until SIGTERM or SIGINT."""
    tls = None
    if settings.idp_tls:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(settings.pki / "idp.pem", settings.pki / "idp.key")
    app = make_app(Keys())
    web.run_app(app, host=bind, port=settings.ports["IDP_PORT"], ssl_context=tls, print=None, access_log=None)


async def serve_backend(settings: Settings, name: str, bind: str) -> None:
    """Serve the backend `name` ("ledger" or "payments") and its journal until SIGTERM or SIGINT."""
    journal = Journal()
    runner = await serve_journal(journal, bind, settings.ports[f"{name.upper()}_JOURNAL_PORT"])
    guard = Guard(f"{settings.url('SIDECAR_ADMIN')}/.well-known/jwks.json", AUDIENCES[name])
    backend = Backend(name, Catalogue(settings.descriptors), guard.verify, journal.write)
    server = await start_backend(backend, f"{bind}:{settings.ports[f'{name.upper()}_PORT']}", settings.pki)
    await _stop_signal()
    await server.stop(GRACE)
    await runner.cleanup()


async def _stop_signal() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
