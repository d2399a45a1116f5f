"""F-01: a changed document is noticed by its content, however it was put there, and only when it has settled."""

import os

import pytest

from sidecar.watch import Watch, digest_contents, read_content


def in_place(folder, target, content):
    with target.open("r+b") as file:
        file.write(content)
        file.truncate()


def rename_over(folder, target, content):
    fresh = folder / "fresh"
    fresh.write_bytes(content)
    fresh.replace(target)


def same_size_and_time(folder, target, content):
    before = target.stat()
    target.write_bytes(content)
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("replace", [in_place, rename_over, same_size_and_time])
def test_each_way_of_replacing_a_file_is_noticed_once(tmp_path, replace):
    """F-01: in-place write, rename over, same mtime and size."""
    target = tmp_path / "gateway.yaml"
    target.write_bytes(b"one")
    watch = Watch([target])
    assert not watch.poll()
    replace(tmp_path, target, b"two")
    assert [watch.poll() for _ in range(4)] == [False, True, False, False]


def test_a_symlink_swap_of_the_parent_folder_is_noticed(tmp_path):
    """F-01: Kubernetes swaps ..data; the watched path goes through it."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "gateway.yaml").write_text(name)
    data = tmp_path / "..data"
    data.symlink_to("a")
    watch = Watch([data / "gateway.yaml"])
    fresh = tmp_path / "..fresh"
    fresh.symlink_to("b")
    fresh.replace(data)
    assert [watch.poll(), watch.poll()] == [False, True]


def test_touching_or_replacing_by_an_equal_file_is_no_change(tmp_path):
    """F-01: no reload when only touched."""
    target = tmp_path / "gateway.yaml"
    target.write_bytes(b"one")
    watch = Watch([target])
    os.utime(target, (1, 1))
    rename_over(tmp_path, target, b"one")
    assert [watch.poll() for _ in range(3)] == [False, False, False]


def test_a_file_that_is_still_being_written_is_not_taken(tmp_path):
    target = tmp_path / "gateway.yaml"
    target.write_bytes(b"one")
    watch = Watch([target])
    for content in (b"t", b"tw", b"two"):
        target.write_bytes(content)
        assert not watch.poll()
    assert watch.poll()


def test_a_file_that_goes_and_comes_back_the_same_ends_where_it_began(tmp_path):
    target = tmp_path / "gateway.yaml"
    target.write_bytes(b"one")
    watch = Watch([target])
    target.unlink()
    assert [watch.poll(), watch.poll()] == [False, True]
    target.write_bytes(b"one")
    assert [watch.poll(), watch.poll(), watch.poll()] == [False, True, False]


def test_content_that_moves_from_one_file_to_the_next_is_a_change(tmp_path):
    first, second = tmp_path / "1", tmp_path / "2"
    assert digest_contents({first: b"x", second: b""}) != digest_contents({first: b"", second: b"x"})


def test_a_change_made_while_the_document_was_being_loaded_is_not_lost(tmp_path):
    target = tmp_path / "gateway.yaml"
    target.write_bytes(b"one")
    watch = Watch([target])
    target.write_bytes(b"two")
    watch.follow({target: b"one"})
    assert [watch.poll(), watch.poll(), watch.poll()] == [False, True, False]


@pytest.mark.timeout(10)
def test_pipe_in_place_of_a_file_is_a_change_and_never_waited_for(tmp_path):
    path = tmp_path / "document"
    path.write_text("one")
    watch = Watch([path])
    path.unlink()
    os.mkfifo(path)

    assert [watch.poll(), watch.poll()] == [False, True]
    assert isinstance(read_content(path), OSError)
