"""A table of API keys: every id is found and no other, from memory and from a file, and a spoiled file is none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.keytable import KeyFileInvalid, KeyTableInvalid, index_keys, open_table

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
IDS = st.text(LETTERS, min_size=1, max_size=64)


def line(name, client="alpha"):
    return json.dumps({"id": name, "sha256": "0" * 64, "client_id": client}).encode()


def kept(table):
    return b"".join(table.parts())


@given(st.sets(IDS, max_size=60), IDS)
def test_every_id_is_found_with_its_own_record_and_no_other_is(ids, other):
    """Also after the table was kept as bytes and opened again."""
    table = index_keys([line(name, f"client of {name}") for name in ids])
    for each in (table, open_table(memoryview(kept(table)))):
        assert len(each) == len(ids)
        assert all(each.find(name).client_id == f"client of {name}" for name in ids)
        assert (each.find(other) is None) == (other not in ids)


@given(st.text(max_size=80))
def test_any_text_can_be_asked_for(text):
    """What is no id is in no table."""
    assert index_keys([line("alpha")]).find(text) is None or text == "alpha"


def test_table_that_filled_every_slot_it_may_still_ends_its_searches():
    """At least half of the slots are empty, at every number of records."""
    for count in (0, 1, 3, 4, 5, 63, 64, 65, 300):
        table = index_keys(line(f"k{number}") for number in range(count))
        assert [table.find(f"k{number}") is not None for number in range(count + 5)] == [True] * count + [False] * 5


def test_second_record_of_an_id_is_named_by_its_line():
    with pytest.raises(KeyFileInvalid, match="line 5: the id 'a' stands twice"):
        index_keys([line("a"), b"", b"# a comment", line("b"), line("a")])


def test_where_an_id_lies_depends_on_all_records():
    """Whoever chooses ids cannot choose them to collide without knowing the hashes of the others' keys."""
    tables = [index_keys([*(line(f"k{number}") for number in range(40)), line("x", other)]) for other in "ab"]
    first, second = ([table.seek(f"k{number}".encode()) for number in range(40)] for table in tables)
    assert first != second


@given(st.data())
def test_spoiled_table_is_refused(data):
    """A bit that fell over, a part that is missing, something else in its place: none of it is looked into."""
    good = bytearray(kept(index_keys([line("alpha"), line("beta")])))
    place = data.draw(st.integers(0, len(good) - 1))
    match data.draw(st.sampled_from(["flip", "cut", "more", "zero"])):
        case "flip":
            good[place] ^= 1 << data.draw(st.integers(0, 7))
        case "cut":
            del good[place:]
        case "more":
            good += b"x"
        case "zero":
            good = bytearray(len(good))
    with pytest.raises(KeyTableInvalid):
        open_table(memoryview(bytes(good)))
