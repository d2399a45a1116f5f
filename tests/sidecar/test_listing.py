"""Large lists on disk: taken up whole when their files have settled, refused whole when one is bad."""

import asyncio
import json
import time

import pytest

from authz.denylist import Denylist, Entry, Subject
from sidecar.listing import Listing
from sidecar.revoked import FILE, load_denylist, save_denylist
from sidecar.secret import read_secret


class Taken:
    """A listing of lines under test: what was taken, what was refused, and a clock that runs when it is told to."""

    def __init__(self, *paths):
        self.tables, self.refused = [], []
        self.listing = Listing(self.parse)
        self.paths = paths
        self.go = asyncio.Semaphore(0)
        self.asleep = asyncio.Event()

    @staticmethod
    def parse(lines):
        table = [line.strip() for line in lines]
        if b"bad" in table:
            raise ValueError("line 1: bad")
        return table

    async def sleep(self, _seconds):
        self.asleep.set()
        await self.go.acquire()

    async def look(self, times=2):
        """Let the listing look at its files so many times."""
        for _ in range(times):
            self.asleep.clear()
            self.go.release()
            await self.asleep.wait()

    async def __aenter__(self):
        table, mark = await self.listing.load(self.paths)
        self.tables.append(table)
        self.listing.adopt(self.paths, mark)
        self.job = asyncio.create_task(self.listing.follow(0, self.tables.append, self.refused.append, self.sleep))
        await self.asleep.wait()
        return self

    async def __aexit__(self, *_error):
        self.job.cancel()
        await asyncio.gather(self.job, return_exceptions=True)


async def test_loop_goes_on_while_a_large_list_is_read(tmp_path):
    """Nothing waits for half a million keys: no pause of the loop is more than a small part of the reading."""
    path = tmp_path / "list"
    path.write_text(f'{{"id": "{"x" * 200}"}}\n' * 100_000)
    loading = asyncio.ensure_future(Listing(lambda lines: [json.loads(line) for line in lines]).load([path]))
    began = last = time.perf_counter()
    longest = 0.0
    while not loading.done():
        await asyncio.sleep(0.0005)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    table, _ = await loading

    assert len(table) == 100_000
    assert longest < (last - began) / 3


async def test_changed_file_is_taken_up_once_it_has_settled(tmp_path):
    """The first look sees the change, the second that it stayed."""
    path = tmp_path / "list"
    path.write_text("one\n")
    async with Taken(path) as taken:
        await taken.look(3)
        assert taken.tables == [[b"one"]]
        path.write_text("one\ntwo\n")
        await taken.look(1)
        assert len(taken.tables) == 1
        await taken.look(1)
        assert taken.tables[1:] == [[b"one", b"two"]]
        await taken.look(3)
        assert len(taken.tables) == 2


async def test_swapped_link_is_a_change(tmp_path):
    """As Kubernetes replaces mounted files."""
    for name in ("first", "second"):
        (tmp_path / name).write_text(f"{name}\n")
    link = tmp_path / "list"
    link.symlink_to(tmp_path / "first")
    async with Taken(link) as taken:
        (tmp_path / "fresh").symlink_to(tmp_path / "second")
        (tmp_path / "fresh").rename(link)
        await taken.look()
        assert taken.tables[1:] == [[b"second"]]


async def test_bad_file_is_refused_once_and_a_good_one_is_taken_later(tmp_path):
    """The list at hand stays; the fault is not told at every look."""
    path = tmp_path / "list"
    path.write_text("one\n")
    async with Taken(path) as taken:
        path.write_text("bad\n")
        await taken.look(5)
        assert taken.refused == [f"{path}: line 1: bad"]
        path.unlink()
        await taken.look(5)
        assert taken.refused[1:] == [f"{path}: No such file or directory"]
        path.write_text("two\n")
        await taken.look()
        assert taken.tables[1:] == [[b"two"]]


async def test_a_fault_of_ours_does_not_end_the_watch(tmp_path):
    """Whatever a reader trips over, the next edit is looked at again."""
    keys = tmp_path / "keys"
    keys.write_text("a\n")
    listing, told, taken = Listing(Taken.parse), [], asyncio.Event()
    _, mark = await listing.load([keys])
    listing.adopt([keys], mark)

    def break_down(_lines):
        raise ZeroDivisionError

    def refuse(why):
        told.append(why)
        listing._parse = Taken.parse
        keys.write_text("a\nb\nc\n")

    listing._parse = break_down
    keys.write_text("a\nb\n")
    follow = asyncio.create_task(listing.follow(10**6, lambda _table: taken.set(), refuse))
    async with asyncio.timeout(10):
        await taken.wait()
    follow.cancel()
    assert told == ["the reader failed: ZeroDivisionError"]


async def test_first_load_of_a_missing_file_is_refused(tmp_path):
    """A policy that names it is no policy."""
    with pytest.raises(ValueError, match="No such file"):
        await Listing(Taken.parse).load([tmp_path / "none"])


def test_denylist_survives_its_way_through_the_disk(tmp_path):
    """With its version, so that only the news are read after a restart."""
    listed = Denylist("17-3")
    listed.add(Entry(Subject.TOKEN, "jti", "iss", before=10**9, expires=2 * 10**9))
    listed.add(Entry(Subject.CLIENT, "client"))
    save_denylist(tmp_path / "state", listed)

    assert load_denylist(tmp_path / "state") == listed
    assert load_denylist(tmp_path / "nowhere") == Denylist()
    assert [path.name for path in (tmp_path / "state").iterdir()] == [FILE]


def test_broken_denylist_on_disk_is_told_and_not_taken_for_an_empty_one(tmp_path):
    """Forgetting what was revoked would let it in again."""
    (tmp_path / FILE).write_text('# version 1-0\n{"subject": "client"\n')

    with pytest.raises(ValueError, match=rf"{FILE}: line 2"):
        load_denylist(tmp_path)


def test_secret_is_read_from_where_the_document_says_it_is(tmp_path):
    """An environment variable or a file, and the fault names the place alone."""
    (tmp_path / "secret").write_text("s3cret\n")

    assert read_secret(f"file:{tmp_path}/secret", {}) == "s3cret"
    assert read_secret("env:NAME", {"NAME": "s3cret"}) == "s3cret"
    assert read_secret("", {}) == ""
    for place in ("env:OTHER", f"file:{tmp_path}/none"):
        with pytest.raises(ValueError, match=r"OTHER|none"):
            read_secret(place, {"NAME": "s3cret"})
