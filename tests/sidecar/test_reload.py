"""F-01, F-08 to F-11: the running sidecar takes up a good edit as a whole and a bad one not at all."""

import asyncio
import contextlib
from dataclasses import replace

from authz.service import METHOD as CHECK
from sidecar.follow import Follower
from sidecar.loader import Loader
from sidecar.settings import Settings
from sidecar.worker import Worker
from tests.sidecar.build import call, channel, check_bytes, gateway, journal, short_folder, status_of, until

MILLISECOND = 1_000_000


class Running:
    """A worker that follows the document in a folder, and a channel to it."""

    def __init__(self, folder, worker, follower, made, lines):
        self.folder, self.worker, self.follower, self.channel, self.lines = folder, worker, follower, made, lines

    async def check(self, route="home", address="192.0.2.7"):
        return status_of(await call(self.channel, CHECK, check_bytes(route, address)))

    async def checks(self, times, **facts):
        return [await self.check(**facts) for _ in range(times)]

    async def edit(self, **changes):
        """Edit the document and wait until the edit is in force."""
        before = self.worker.snapshot()["version"]
        gateway(self.folder, **changes)
        await until(lambda: self.worker.snapshot()["version"] != before)

    async def spoil(self, text):
        """Replace the document by a bad one and wait until that is noticed."""
        (self.folder / "gateway.yaml").write_text(text)
        await until(lambda: self.follower.errors)


@contextlib.asynccontextmanager
async def running(*, first=True, envoy=False, **document):
    with short_folder() as folder:
        path = folder / "gateway.yaml"
        if first:
            gateway(folder, **document)
        settings = Settings(path, envoy=folder / "envoy" if envoy else None, grace=0)
        written, lines = journal()
        loader = Loader(path, settings.envoy, environment={})
        worker = Worker(settings, written)
        await worker.start(f"unix:{folder}/w.sock")
        loaded = loader.load() if first else None
        if loaded is not None:
            assert await worker.apply(loaded.snapshot) is None
        follower = Follower(worker, written, 10 * MILLISECOND)
        job = asyncio.create_task(follower.follow_document(loader, loaded))
        try:
            async with channel(f"unix:{folder}/w.sock") as made:
                yield Running(folder, worker, follower, made, lines)
        finally:
            job.cancel()
            await worker.stop()
            written.close()


async def test_checks_before_the_first_policy_are_refused_and_the_worker_is_not_ready():
    """F-09: not ready until the first good one; checks meanwhile 503; stays ready on the old one after a bad one."""
    async with running(first=False) as sidecar:
        assert sidecar.worker.ready() == "no policy yet"
        assert await sidecar.check() == 503
        await sidecar.spoil("gateway: [")
        assert sidecar.worker.ready() == "no policy yet"
        assert await sidecar.check() == 503
        await sidecar.edit()
        assert sidecar.worker.ready() is None
        assert await sidecar.check() == 200
        await sidecar.spoil("gateway: [")
        assert sidecar.worker.ready() is None
        assert await sidecar.check() == 200


async def test_a_lowered_limit_holds_from_the_next_request_and_only_it():
    """F-08: lower 1000/min to 10/min while 900 are left: the balance is clamped to the new burst."""
    async with running(rate="1000/min") as sidecar:
        assert await sidecar.checks(100) == [200] * 100
        await sidecar.edit(rate="10/min")
        answers = await sidecar.checks(30)
        assert answers.count(200) <= 10
        assert answers[-1] == 429


async def test_a_raised_limit_gives_room_to_a_caller_who_had_none():
    """F-08: raise 10 to 6000 a minute while exhausted."""
    async with running(rate="10/min") as sidecar:
        assert (await sidecar.checks(11))[-1] == 429
        await sidecar.edit(rate="6000/min")
        await asyncio.sleep(0.05)
        assert await sidecar.check() == 200


async def test_counters_survive_an_edit_that_does_not_touch_their_limit():
    """F-08: balances stay over a reload."""
    async with running(rate="10/min") as sidecar:
        assert await sidecar.checks(10) == [200] * 10
        await sidecar.edit(rate="10/min", routes=("home", "away"))
        assert await sidecar.check() == 429
        assert await sidecar.check(address="192.0.2.8") == 200


async def test_a_removed_route_is_refused_from_the_next_request():
    """F-10: new snapshot without route R."""
    async with running(routes=("home", "away")) as sidecar:
        assert await sidecar.check("away") == 200
        await sidecar.edit()
        assert await sidecar.check("away") == 404
        assert await sidecar.check("home") == 200


async def test_nothing_of_an_edit_with_a_fault_at_its_end_is_active():
    """F-11: first sections fine (a new route, a new limit), the last one invalid."""
    async with running(rate="1000/min", envoy=True) as sidecar:
        await until((sidecar.folder / "envoy" / "envoy.yaml").exists)
        before = {path.name: path.read_bytes() for path in (sidecar.folder / "envoy").iterdir()}
        gateway(sidecar.folder, routes=("home", "fresh"), rate="1/min", tail="nonsense: 1\n")
        await until(lambda: sidecar.follower.errors)
        assert await sidecar.check("fresh") == 404
        assert await sidecar.checks(5) == [200] * 5
        assert {path.name: path.read_bytes() for path in (sidecar.folder / "envoy").iterdir()} == before


async def test_a_refused_edit_is_told_with_its_place_until_a_good_one_comes():
    async with running() as sidecar:
        await sidecar.spoil("gateway: small\nfoo: 1\n")
        assert "gateway.yaml:2:1" in sidecar.follower.errors["document"]
        await until(lambda: any('"edit refused"' in line for line in sidecar.lines))
        await sidecar.edit(rate="70/min")
        assert sidecar.follower.errors == {}
        assert sidecar.follower.failures == {"document": 1}


async def test_going_back_to_the_document_in_force_clears_the_error():
    async with running() as sidecar:
        good = (sidecar.folder / "gateway.yaml").read_text()
        await sidecar.spoil("gateway: [")
        (sidecar.folder / "gateway.yaml").write_text(good)
        await until(lambda: not sidecar.follower.errors)
        assert await sidecar.check() == 200


async def test_a_policy_that_the_worker_cannot_use_is_refused_as_a_whole():
    """F-11: what the compiler lets through and the worker cannot parse changes nothing."""
    async with running() as sidecar:
        snapshot = sidecar.worker._sidecar.snapshot
        broken = replace(snapshot, version="x", routes={"home": replace(snapshot.routes["home"], plane="nowhere")})
        assert "cannot be used" in await sidecar.worker.apply(broken)
        assert sidecar.worker.snapshot()["version"] == snapshot.version
        assert await sidecar.check() == 200


async def test_only_the_envoy_files_that_changed_are_written():
    async with running(envoy=True) as sidecar:
        folder = sidecar.folder / "envoy"
        await until((folder / "envoy.yaml").exists)
        before = {path.name: path.stat().st_ino for path in folder.iterdir()}
        await sidecar.edit(routes=("home", "away"))
        await until(lambda: (folder / "rds-public.yaml").stat().st_ino != before["rds-public.yaml"])
        after = {path.name: path.stat().st_ino for path in folder.iterdir()}
        assert {name for name in after if after[name] != before[name]} == {"rds-public.yaml"}


async def test_no_check_fails_while_the_document_is_edited_again_and_again():
    """F-11: requests in flight see old or new as a whole."""
    async with running(rate="60000/min") as sidecar:
        answers = []

        async def ask():
            while True:
                answers.append(await sidecar.check())

        asking = [asyncio.create_task(ask()) for _ in range(4)]
        for number in range(5):
            await sidecar.edit(rate="60000/min", routes=("home", f"route-{number}"))
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        assert set(answers) == {200}
