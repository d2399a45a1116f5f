"""The sidecar as one process: load, serve, watch the document, stop on a signal."""

import asyncio
import logging
import signal
import sys
from pathlib import Path

import uvloop

from model.instant import SECOND
from policy.fault import Faults
from ratelimit.imported import RulesInvalid, load_rules
from ratelimit.rules import Rules
from sidecar.failure import CommandFailed
from sidecar.loader import Loaded, Loader
from sidecar.logs import Bridge, Journal
from sidecar.server import AddressUnusable
from sidecar.settings import Settings
from sidecar.watch import Watch, read_folder
from sidecar.worker import Worker


def run_alone(settings: Settings) -> int:
    """Serve in this process until SIGTERM or SIGINT; the exit code. Raises CommandFailed where it cannot begin."""
    loader = Loader(settings.document, settings.envoy)
    first = load_first(loader, wait=settings.wait)
    rules = load_first_rules(settings.ratelimit)
    journal = open_journal(settings)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(settings, loader, first, rules, journal))
    except AddressUnusable as error:
        raise CommandFailed(str(error)) from error
    finally:
        journal.close()


def load_first(loader: Loader, *, wait: bool) -> Loaded | None:
    """Load the document for the first time; None where it is bad and that may be waited out. Raises CommandFailed."""
    try:
        return loader.load()
    except Faults as faults:
        if wait:
            return None
        raise CommandFailed(str(faults)) from faults


def load_first_rules(directory: Path | None) -> Rules | None:
    """Load the rate limit service's own rules, where a folder is named for them. Raises CommandFailed."""
    if directory is None:
        return None
    try:
        return load_rules(directory)
    except RulesInvalid as faults:
        raise CommandFailed(str(faults)) from faults


def open_journal(settings: Settings) -> Journal:
    """Open the log on standard output and lead into it what libraries log."""

    def write(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    journal = Journal(write, settings.log_level, settings.log_format, settings.log_rate)
    logging.basicConfig(handlers=[Bridge(journal)], level=logging.WARNING, force=True)
    return journal


def watch_signals() -> asyncio.Event:
    """Give an event that SIGTERM or SIGINT sets; a second signal changes nothing, the grace time bounds the stop."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    return stopping


async def _serve(
    settings: Settings, loader: Loader, first: Loaded | None, rules: Rules | None, journal: Journal
) -> int:
    stopping = watch_signals()
    worker = Worker(settings, journal)
    await worker.start(settings.listen or first_address(first), settings.admin)
    if first is not None and not await worker.apply(first.snapshot) and not settings.wait:
        raise CommandFailed(f"{settings.document}: the policy cannot be used; see the log")
    jobs = [asyncio.create_task(_follow_document(settings, loader, first, worker, journal), name="document")]
    if settings.ratelimit is not None and rules is not None:
        jobs.append(asyncio.create_task(_follow_rules(settings, settings.ratelimit, rules, worker), name="rules"))
    await stopping.wait()
    for job in jobs:
        job.cancel()
    await worker.stop()
    return 0


def first_address(first: Loaded | None) -> str:
    """Give the address that the document names. Raises CommandFailed where there is no document to name one."""
    if first is None:
        raise CommandFailed("--wait needs --listen: without a document there is no address")
    return str(first.document.sockets()[0])


async def _follow_document(
    settings: Settings, loader: Loader, loaded: Loaded | None, worker: Worker, journal: Journal
) -> None:
    """Keep Envoy's half and the worker's in step with the document, the worker first: an unknown route is refused."""
    while True:
        if loaded is not None:
            loaded = await _publish(loader, loaded, journal)
        await asyncio.sleep(settings.poll / SECOND)
        if not await asyncio.to_thread(loader.poll):
            continue
        try:
            fresh = await asyncio.to_thread(loader.load)
        except Faults as faults:
            worker.refuse("document", str(faults))
            continue
        if await worker.apply(fresh.snapshot):
            loaded = fresh


async def _publish(loader: Loader, loaded: Loaded, journal: Journal) -> Loaded | None:
    """Write Envoy's half; what could not be written is given back, to be tried again."""
    try:
        changed = await asyncio.to_thread(loader.publish, loaded)
    except OSError as error:
        journal.event("error", "envoy files not written", why=str(error))
        return loaded
    if changed:
        journal.event("info", "envoy files written", files=changed)
    return None


async def _follow_rules(settings: Settings, directory: Path, rules: Rules, worker: Worker) -> None:
    """Keep the rules of the rate limit service in step with their folder; bad files change nothing."""
    watch = Watch([])
    watch.follow(await asyncio.to_thread(read_folder, directory))
    worker.apply_rules(rules)
    while True:
        await asyncio.sleep(settings.poll / SECOND)
        if not watch.observe(await asyncio.to_thread(read_folder, directory)):
            continue
        try:
            worker.apply_rules(await asyncio.to_thread(load_rules, directory))
        except RulesInvalid as faults:
            worker.refuse("rules", str(faults))
