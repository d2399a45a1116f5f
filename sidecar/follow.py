"""Following what is written on disk: a good edit is taken up as a whole, a bad one changes nothing and is told."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from model.instant import SECOND, Duration
from model.snapshot import Snapshot
from policy.fault import Faults
from ratelimit.imported import RulesInvalid
from ratelimit.rules import Rules
from sidecar.loader import Loaded, Loader
from sidecar.logs import Journal
from sidecar.rates import Rates
from sidecar.watch import Watch, read_folder

_SETTLED = 2.0
"""Seconds after which Envoy has read what was written: it takes some tens of milliseconds, more where it is busy."""


class Target(Protocol):
    """Where policies and rules are taken up."""

    async def apply(self, snapshot: Snapshot) -> str | None:
        """Take up a snapshot; None, or why it cannot be used, all being as before then."""
        ...

    async def apply_rules(self, rules: Rules) -> None:
        """Take up the rate limit service's own rules."""
        ...


class Follower:
    """Keeps a target, and the Envoy files, in step with the document and the rules on disk.

    `errors` holds the faults of the last edit of each source ("document", "rules", "envoy files") while they stand;
    `failures` counts refused edits; `published` is set once Envoy's files are written for the first time.
    """

    def __init__(self, target: Target, journal: Journal, poll: Duration) -> None:
        self.errors: dict[str, str] = {}
        self.failures: Counter[str] = Counter()
        self.published = asyncio.Event()
        self._target = target
        self._journal = journal
        self._poll = poll / SECOND

    async def follow_document(self, loader: Loader, first: Loaded | None) -> None:
        """Publish the first version, which the target has, then take up every later one; ends when cancelled.

        The target comes before Envoy: a route that only Envoy knows would be refused as unknown.
        """
        unpublished, published = first, 0.0
        unsettled: Loaded | None = None
        now = asyncio.get_running_loop().time
        while True:
            if unpublished is not None and await self._publish(loader.publish, unpublished):
                unpublished, unsettled, published = None, unpublished, now()
            if unsettled is not None and now() - published > _SETTLED and await self._publish(loader.settle, unsettled):
                unsettled = None
            await asyncio.sleep(self._poll)
            if await asyncio.to_thread(loader.poll):
                unpublished = await self._take_up(loader) or unpublished

    async def follow_rules(self, rates: Rates, watch: Watch) -> None:
        """Take up every later version of a folder of rules than the one that `watch` has seen; ends when cancelled."""
        while True:
            await asyncio.sleep(self._poll)
            if watch.observe(await asyncio.to_thread(read_folder, rates.folder)):
                await self.take_rules(rates)

    async def take_rules(self, rates: Rates) -> bool:
        """Take up a folder of rules as it is now; False where it is refused, and the rules in force stay."""
        try:
            rules = await asyncio.to_thread(rates.load)
        except RulesInvalid as faults:
            self.refuse("rules", str(faults))
            return False
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the watch over all later edits
            self.refuse("rules", f"the reader failed: {type(error).__name__}")
            return False
        await self._target.apply_rules(rules)
        self.errors.pop("rules", None)
        self._journal.event("info", "rules in force", domains=sorted(rules.domains), notices=list(rules.notices))
        return True

    def refuse(self, source: str, faults: str) -> None:
        """Keep that an edit was refused; `faults` holds one a line."""
        self.errors[source] = faults
        self.failures[source] += 1
        self._journal.event("error", "edit refused", source=source, faults=faults.splitlines())

    async def _take_up(self, loader: Loader) -> Loaded | None:
        try:
            loaded = await asyncio.to_thread(loader.load)
        except Faults as faults:
            self.refuse("document", str(faults))
            return None
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the watch over all later edits
            self.refuse("document", f"the compiler failed: {type(error).__name__}")
            return None
        fault = await self._target.apply(loaded.snapshot)
        if fault is not None:
            self.refuse("document", fault)
            return None
        self.errors.pop("document", None)
        return loaded

    async def _publish(self, write: Callable[[Loaded], list[str]], loaded: Loaded) -> bool:
        """Write Envoy's half; False where it could not be written and must be tried again."""
        try:
            changed = await asyncio.to_thread(write, loaded)
        except OSError as error:
            if "envoy files" not in self.errors:
                self.refuse("envoy files", str(error))
            return False
        self.errors.pop("envoy files", None)
        self.published.set()
        if changed:
            self._journal.event("info", "envoy files written", files=changed)
        return True
