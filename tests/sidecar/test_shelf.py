"""Key tables that workers share: made once, mapped by the others, never out of date, and no loss where it fails."""

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from authz.keytable import KeyFileInvalid, index_keys
from sidecar.listing import Listing
from sidecar.shelf import Shelf


class Keys:
    """A key file, the folder of its table, and how often the file was read."""

    def __init__(self, folder):
        self.file, self.folder = folder / "keys.jsonl", folder / "state"
        self.read = 0

    def write(self, *names):
        lines = [json.dumps({"id": name, "sha256": "0" * 64, "client_id": name}) for name in names]
        self.file.write_text("\n".join(lines) + "\n")

    def make(self):
        self.read += 1
        return index_keys(self.file.read_bytes().splitlines())

    def take(self, folder=None, floor=0):
        """Take the table as one more worker would."""
        return Shelf(folder or self.folder, floor).take([self.file], self.make)

    def kept(self):
        return sorted(path.name for path in self.folder.iterdir() if path.name != "keys.lock")


@pytest.fixture
def keys(tmp_path):
    made = Keys(tmp_path)
    made.write("a", "b")
    return made


def test_second_worker_maps_what_the_first_one_made(keys):
    first, second = keys.take(), keys.take()

    assert keys.read == 1
    assert first.find("a").client_id == second.find("a").client_id == "a"
    assert first.find("c") is second.find("c") is None
    assert "keys-" in Path("/proc/self/maps").read_text()


def test_changed_file_is_another_table_even_with_its_old_time_and_size(keys):
    """The new one takes the old one's place; who has the old one mapped keeps it."""
    before = keys.file.stat()
    old = keys.take()
    (name,) = keys.kept()
    keys.write("a", "c")
    os.utime(keys.file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert keys.file.stat().st_size == before.st_size
    new = keys.take()

    assert (new.find("b"), new.find("c").client_id) == (None, "c")
    assert (old.find("b").client_id, old.find("c")) == ("b", None)
    assert keys.kept() != [name]
    assert len(keys.kept()) == 1


def test_table_of_a_file_that_changed_meanwhile_is_not_kept(keys):
    """Else it would be found under the name of what the file held before."""

    def make():
        keys.write("late")
        return keys.make()

    table = Shelf(keys.folder, 0).take([keys.file], make)

    assert table.find("late").client_id == "late"
    assert keys.kept() == []


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b""), lambda path: path.write_bytes(bytes(4096))])
def test_spoiled_table_is_made_anew(keys, spoil):
    """After a crash of the machine a file may be empty, or zeros."""
    keys.take()
    spoil(keys.folder / keys.kept()[0])

    assert keys.take().find("a").client_id == "a"
    assert keys.read == 2
    keys.take()
    assert keys.read == 2


def test_leftover_of_a_worker_that_died_while_writing_is_removed(keys):
    keys.folder.mkdir()
    (keys.folder / ".keys-0123.table.abc").write_bytes(b"half")
    keys.take()

    assert len(keys.kept()) == 1


def test_bad_key_file_is_refused_and_nothing_is_kept(keys):
    keys.file.write_text("no record\n")
    with pytest.raises(KeyFileInvalid, match="line 1"):
        keys.take()

    assert keys.kept() == []


@pytest.mark.parametrize("where", ["no folder", "a file in its place", "a small table"])
def test_worker_that_can_keep_nothing_holds_its_own(keys, where, tmp_path):
    folder = {"no folder": None, "a file in its place": keys.file, "a small table": tmp_path / "x"}[where]
    shelf = Shelf(folder, 0 if where != "a small table" else 1 << 20)

    assert shelf.take([keys.file], keys.make).find("a").client_id == "a"
    assert not (tmp_path / "x").exists()


def test_full_disk_costs_memory_and_no_key(keys, monkeypatch):
    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sidecar.shelf.os.fsync", full)

    assert keys.take().find("a").client_id == "a"
    assert keys.kept() == []


async def test_missing_key_file_is_named(keys, tmp_path):
    listing = Listing(index_keys, Shelf(keys.folder, 0).take)
    with pytest.raises(ValueError, match=r"none\.jsonl: No such file"):
        await listing.load([tmp_path / "none.jsonl"])


def test_table_is_for_this_user_only(keys):
    keys.take()

    assert {path.stat().st_mode & 0o777 for path in keys.folder.iterdir()} == {0o600}
    assert keys.folder.stat().st_mode & 0o777 == 0o700


def _work(folder, file, results):
    made = []
    table = Shelf(folder, 0).take([file], lambda: made.append(1) or index_keys(file.read_bytes().splitlines()))
    results.put((len(made), len(table)))


def test_of_workers_that_start_at_once_one_makes_the_table(keys):
    keys.write(*(f"k{number}" for number in range(2000)))
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=_work, args=(keys.folder, keys.file, results)) for _ in range(4)]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=30) for _ in workers]
    for worker in workers:
        worker.join(10)

    assert sorted(found) == [(0, 2000), (0, 2000), (0, 2000), (1, 2000)]
