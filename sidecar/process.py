"""The sidecar as a whole: load, seat the workers, follow the files, stop on a signal."""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any

from policy.fault import Faults
from sidecar.admin import Admin
from sidecar.failure import CommandFailed
from sidecar.fleet import Fleet
from sidecar.follow import Follower
from sidecar.loader import Loaded, Loader
from sidecar.logs import Journal, open_journal
from sidecar.server import AddressUnusable
from sidecar.settings import Settings
from sidecar.supervisor import StartRefused, Supervisor, WorkersDying
from sidecar.watch import Watch, read_folder

REFERENCE = "127.0.0.1:8081"
"""Where the rate limit service alone listens: the port of envoyproxy/ratelimit, for this host until told otherwise."""


def run_sidecar(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. Raises CommandFailed where it cannot begin, or not go on."""
    journal = open_journal(settings.log_level, settings.log_format, settings.log_rate)
    try:
        asyncio.run(_serve(settings, journal))
    except (AddressUnusable, StartRefused) as error:
        raise CommandFailed(str(error)) from error
    except WorkersDying as error:
        raise CommandFailed(str(error), code=1) from error
    finally:
        journal.close()
    return 0


async def _serve(settings: Settings, journal: Journal) -> None:
    stopping, recycling = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number, event in ((signal.SIGTERM, stopping), (signal.SIGINT, stopping), (signal.SIGHUP, recycling)):
        loop.add_signal_handler(number, event.set)
    supervisor = Supervisor(settings, journal)
    follower = Follower(supervisor, journal, settings.poll)
    async with contextlib.AsyncExitStack() as stack:
        if settings.admin:
            admin = Admin(Fleet(supervisor, follower, journal), settings.admin)
            journal.event("info", "admin", address=await admin.start())
            stack.push_async_callback(admin.stop)
        stack.push_async_callback(supervisor.close)
        work = [
            asyncio.create_task(_work(settings, supervisor, follower), name="work"),
            asyncio.create_task(_recycle(supervisor, recycling), name="recycle"),
        ]
        stop = asyncio.create_task(stopping.wait(), name="stop")
        ends: list[asyncio.Future[Any]] = [stop, supervisor.failed, *work]
        done, pending = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        for task in done:
            task.result()


async def _work(settings: Settings, supervisor: Supervisor, follower: Follower) -> None:
    """Bring what is on disk into force and follow the files from then on. Raises CommandFailed, AddressUnusable."""
    await supervisor.prepare(settings.workers or 1)
    if settings.document is None:
        await supervisor.open(settings.listen or REFERENCE, settings.workers or 1)
        follower.published.set()  # there are no files for Envoy
        await asyncio.gather(*await _begin_rules(settings, follower))
        return
    loader = Loader(settings.document, settings.envoy, settings.workers)
    first = await _load_first(settings, loader, follower)
    if first is None and not settings.listen:
        raise CommandFailed("--wait needs --listen: without a document there is no address")
    await supervisor.open(*_find_place(settings, first))
    rules = await _begin_rules(settings, follower)
    if first is not None and (fault := await supervisor.apply(first.snapshot)) is not None:
        if not settings.wait:
            raise CommandFailed(f"{settings.document}: {fault}")
        follower.refuse("document", fault)
        first = None
    await asyncio.gather(follower.follow_document(loader, first), *rules)


async def _load_first(settings: Settings, loader: Loader, follower: Follower) -> Loaded | None:
    """Load the document for the first time; None where it is bad and that is to be waited out."""
    try:
        return await asyncio.to_thread(loader.load)
    except Faults as faults:
        if not settings.wait:
            raise CommandFailed(str(faults)) from faults
        follower.refuse("document", str(faults))
        return None


async def _begin_rules(settings: Settings, follower: Follower) -> list[Coroutine[Any, Any, None]]:
    """Take up the rate limit service's own rules, where there are any; what follows them from then on."""
    rates = settings.rates
    if rates is None:
        return []
    watch = Watch([])
    watch.follow(await asyncio.to_thread(read_folder, rates.folder))
    if not await follower.take_rules(rates) and not settings.wait:
        raise CommandFailed(follower.errors["rules"])
    return [follower.follow_rules(rates, watch)]


def _find_place(settings: Settings, first: Loaded | None) -> tuple[str, int]:
    """Give the address and the number of workers: the command line's, else the document's."""
    if first is None:
        return settings.listen, settings.workers or 1
    document = first.document
    address = document.sidecar.address
    named = f"unix:{document.file(address.path)}" if address.path else str(address)
    return settings.listen or named, document.sidecar.workers


async def _recycle(supervisor: Supervisor, wanted: asyncio.Event) -> None:
    """Replace the workers one by one at each SIGHUP."""
    while True:
        await wanted.wait()
        wanted.clear()
        await supervisor.recycle()
