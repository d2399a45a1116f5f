"""The revocation feed over a real Redis: every sidecar learns, says so, and forgets nothing while the feed is away."""

import asyncio
import shutil
import subprocess

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from authz.denylist import NEVER, Denylist, Entry, Subject, read_entry
from authz.feed import HOLDERS, WHOLE, RevocationFeed, publish_entry, read_coverage

pytestmark = [
    pytest.mark.redis,
    pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server on this machine"),
]

NOW = 1_800_000_000_000_000_000


@pytest.fixture
def server(tmp_path):
    """A Redis of its own on a Unix socket, ended by its process."""
    path = tmp_path / "r.sock"
    command = ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield path
    finally:
        process.kill()
        process.wait()


async def connect(path):
    client = Redis(unix_socket_path=str(path))
    async with asyncio.timeout(20):
        while True:
            try:
                await client.ping()
            except (RedisError, OSError):
                await asyncio.sleep(0.01)
            else:
                return client


class Sidecar:
    """A denylist on its feed, and an event for each change."""

    def __init__(self, path, name, denylist=None):
        self.denylist = denylist or Denylist()
        self.changes = asyncio.Condition()
        self.states = []
        self.feed = RevocationFeed(
            Redis(unix_socket_path=str(path)), self.denylist, name, lambda: NOW, self._changed, self.states.append
        )
        self._news = asyncio.Event()

    def _changed(self, denylist):
        self._news.set()

    async def until(self, condition):
        async with asyncio.timeout(20):
            while not condition():
                self._news.clear()
                await self._news.wait()

    def refuses(self, name):
        return self.denylist.revokes(Subject.CLIENT, "", name, None, NOW)


async def test_every_sidecar_learns_and_the_coverage_says_so(server):
    """Three sidecars hold an entry soon after it was published; coverage is complete only then."""
    client = await connect(server)
    sidecars = [Sidecar(server, f"s{i}") for i in range(3)]
    for sidecar in sidecars:
        await sidecar.feed.start()
    version = await publish_entry(client, Entry(Subject.CLIENT, "rogue"))
    for sidecar in sidecars:
        await sidecar.until(lambda s=sidecar: s.refuses("rogue"))
    async with asyncio.timeout(20):
        while not (coverage := await read_coverage(client, version)).complete:  # noqa: ASYNC110 - Redis rings no bell
            await asyncio.sleep(0)

    assert (coverage.held, coverage.live, coverage.behind) == (3, 3, ())
    for sidecar in sidecars:
        await sidecar.feed.close()
    await client.aclose()


async def test_entry_taken_back_is_forgotten_everywhere(server):
    """An entry removed from the feed lets the client in again, and a newcomer never hears of it."""
    client = await connect(server)
    sidecar = Sidecar(server, "s")
    await publish_entry(client, Entry(Subject.CLIENT, "sorry"))
    await sidecar.feed.start()
    assert sidecar.refuses("sorry")
    await publish_entry(client, Entry(Subject.CLIENT, "sorry"), remove=True)
    await sidecar.until(lambda: not sidecar.refuses("sorry"))
    newcomer = Sidecar(server, "new")
    await newcomer.feed.start()

    assert not newcomer.refuses("sorry")
    await sidecar.feed.close()
    await newcomer.feed.close()
    await client.aclose()


async def test_narrower_entry_weakens_nothing_for_a_newcomer(server):
    """Of two for the same thing the wider one stays, in the feed as in the sidecars that heard of both."""
    client = await connect(server)
    elder, newcomer = Sidecar(server, "elder"), Sidecar(server, "new")
    await elder.feed.start()
    await publish_entry(client, Entry(Subject.CLIENT, "rogue"))
    await publish_entry(client, Entry(Subject.CLIENT, "rogue", before=NOW - 10**12, expires=NOW + 10**12))
    await publish_entry(client, Entry(Subject.CLIENT, "last"))
    await elder.until(lambda: elder.refuses("last"))
    await newcomer.feed.start()
    for sidecar in (elder, newcomer):
        assert sidecar.denylist.marks[Subject.CLIENT]["", "rogue"] == (None, NEVER)
        await sidecar.feed.close()
    await client.aclose()


async def test_entry_that_has_expired_widens_no_new_one(server):
    """What nobody enforces any more must not come back with an entry that says less."""
    client = await connect(server)
    await publish_entry(client, Entry(Subject.CLIENT, "sorry", expires=10**9))
    await publish_entry(client, Entry(Subject.CLIENT, "sorry", before=NOW))
    (line,) = (await client.hgetall(WHOLE)).values()
    assert read_entry(line) == Entry(Subject.CLIENT, "sorry", before=NOW)
    await client.aclose()


async def test_entries_written_at_the_same_time_are_joined(server):
    """Whoever comes second sees what the first wrote."""
    client = await connect(server)
    entries = [
        Entry(Subject.CLIENT, "rogue", before=NOW + n * 10**9, expires=NOW + (20 - n) * 10**9) for n in range(20)
    ]
    await asyncio.gather(*(publish_entry(client, entry) for entry in entries))
    (line,) = (await client.hgetall(WHOLE)).values()
    assert read_entry(line) == Entry(Subject.CLIENT, "rogue", before=NOW + 19 * 10**9, expires=NOW + 20 * 10**9)
    await client.aclose()


async def test_newcomer_reads_what_the_stream_no_longer_holds(server):
    """The whole list outlives the stream's length."""
    client = await connect(server)
    await publish_entry(client, Entry(Subject.CLIENT, "ancient"))
    await client.delete("wardgate:{revocations}:stream")
    await publish_entry(client, Entry(Subject.CLIENT, "recent"))
    sidecar = Sidecar(server, "s")
    await sidecar.feed.start()

    assert sidecar.refuses("ancient")
    assert sidecar.refuses("recent")
    await sidecar.feed.close()
    await client.aclose()


async def test_sidecar_follows_only_after_it_has_caught_up(server, monkeypatch):
    """A Redis that fails at the start, or is still loading, keeps nobody from the part of the list that is old."""
    client = await connect(server)
    await publish_entry(client, Entry(Subject.CLIENT, "ancient"))
    await client.delete("wardgate:{revocations}:stream")
    monkeypatch.setattr("authz.feed.RETRY_S", 0)
    sidecar = Sidecar(server, "s")
    catch_up, faults = sidecar.feed._catch_up, iter([TimeoutError(), TimeoutError()])

    async def fail_twice():
        for fault in faults:
            raise fault
        await catch_up()

    monkeypatch.setattr(sidecar.feed, "_catch_up", fail_twice)
    await sidecar.feed.start()
    try:
        await publish_entry(client, Entry(Subject.CLIENT, "recent"))
        await sidecar.until(lambda: sidecar.refuses("recent"))
        assert sidecar.refuses("ancient")
    finally:
        await sidecar.feed.close()
        await client.aclose()


async def test_known_revoked_stays_refused_while_redis_is_away(tmp_path):
    """J-24: no outage of the feed makes a revoked credential valid again."""
    denylist = Denylist("5-0")
    denylist.add(Entry(Subject.CLIENT, "rogue"))
    sidecar = Sidecar(tmp_path / "nowhere.sock", "s", denylist)
    await sidecar.feed.start()

    assert sidecar.refuses("rogue")
    assert sidecar.states == [False]
    await sidecar.feed.close()


async def test_unreadable_entry_keeps_no_other_from_being_enforced(server):
    """One line that somebody wrote by hand does not stop the feed."""
    client = await connect(server)
    sidecar = Sidecar(server, "s")
    await sidecar.feed.start()
    await client.xadd("wardgate:{revocations}:stream", {"op": "add", "entry": "nonsense"})
    await client.xadd("wardgate:{revocations}:stream", {"odd": "1"})
    await client.xadd("wardgate:{revocations}:stream", {"op": "add", "entry": b"\xff\xfe"})
    await client.xadd("wardgate:{revocations}:stream", {b"\xc3": b"\x80"})
    await publish_entry(client, Entry(Subject.CLIENT, "rogue"))
    await sidecar.until(lambda: sidecar.refuses("rogue"))
    await sidecar.feed.close()
    await client.aclose()


async def test_a_fault_of_ours_does_not_end_the_feed(server, monkeypatch, caplog):
    """A task that dies would hear of no revocation any more, and nobody would know."""
    client = await connect(server)
    sidecar = Sidecar(server, "s")
    await sidecar.feed.start()
    apply, faults = sidecar.feed._apply, iter([ZeroDivisionError()])

    def fail_once(fields):
        for fault in faults:
            raise fault
        apply(fields)

    monkeypatch.setattr("authz.feed.RETRY_S", 0)
    monkeypatch.setattr(sidecar.feed, "_apply", fail_once)
    await publish_entry(client, Entry(Subject.CLIENT, "rogue"))
    await sidecar.until(lambda: sidecar.refuses("rogue"))
    assert False in sidecar.states
    assert "cannot be followed" in caplog.text
    await sidecar.feed.close()
    await client.aclose()


async def test_nobody_alive_is_not_covered(server):
    """Coverage without a sidecar is not complete: nothing is being refused anywhere."""
    client = await connect(server)
    version = await publish_entry(client, Entry(Subject.CLIENT, "rogue"))

    assert not (await read_coverage(client, version)).complete
    await client.aclose()


async def test_expired_entries_and_sidecars_that_are_long_gone_are_struck_off(server):
    """Neither the list nor the coverage grows for ever; what holds stays."""
    client = await connect(server)
    for entry in (Entry(Subject.TOKEN, "old", "iss", expires=NOW - 10**9), Entry(Subject.CLIENT, "rogue")):
        await publish_entry(client, entry)
    await client.hset(HOLDERS, "long-gone", "1 0-0")
    sidecar = Sidecar(server, "s")
    await sidecar.feed.start()
    try:
        assert await client.hlen(WHOLE) == 1
        assert list(await client.hgetall(HOLDERS)) == [b"s"]
        assert sidecar.refuses("rogue")
    finally:
        await sidecar.feed.close()
        await client.aclose()
