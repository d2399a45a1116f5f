"""API keys: the right key passes, everything else looks the same from outside."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.apikey import hash_key, judge_key
from authz.keyrecord import KeyRecord
from authz.keytable import KeyFileInvalid, index_keys
from model.instant import SECOND
from model.reason import Reason
from model.verdict import Deny

NOW = 1_800_000_000 * SECOND
KEY = "alpha7.s3cr3t"


def record_line(key=KEY, **members):
    """A record of a key file."""
    record = {"id": key.split(".")[0], "sha256": hash_key(key), "client_id": "alpha", "scopes": ["accounts:read"]}
    return json.dumps(record | members).encode()


def judge(text, *lines, now=NOW):
    return judge_key(text, index_keys(lines or [record_line()]), now)


def reason(verdict):
    assert isinstance(verdict, Deny)
    return verdict.reason


def test_right_key_finds_its_record():
    """The record says whose key it is and what it may."""
    record = judge(KEY)

    assert isinstance(record, KeyRecord)
    assert (record.client_id, record.scopes) == ("alpha", frozenset({"accounts:read"}))


@pytest.mark.parametrize(
    "text", ["", ".", "alpha7", "alpha7.", ".s3cr3t", "alpha7.wrong", "other.s3cr3t", KEY + ",x", KEY + " ", "ä.b"]
)
def test_any_other_text_is_an_unknown_key(text):
    """H-06: a value with a comma does not match the part before it; unknown id and wrong secret look alike."""
    assert reason(judge(text)) is Reason.API_KEY_UNKNOWN


def test_very_long_key_is_refused_without_work():
    """A megabyte is not hashed."""
    assert reason(judge("alpha7." + "x" * 1_000_000)) is Reason.API_KEY_UNKNOWN


@pytest.mark.parametrize(
    ("members", "allowed"),
    [
        ({"not_after": NOW // SECOND + 1}, True),
        ({"not_after": NOW // SECOND}, False),
        ({"not_before": NOW // SECOND}, True),
        ({"not_before": NOW // SECOND + 1}, False),
    ],
)
def test_validity_ends_at_its_instant_and_starts_at_its_instant(members, allowed):
    """The end is exclusive, the start inclusive."""
    verdict = judge(KEY, record_line(**members))

    assert isinstance(verdict, KeyRecord) == allowed
    if not allowed:
        assert reason(verdict) is Reason.API_KEY_EXPIRED


def test_rotation_overlaps():
    """Two keys of one client are valid at once; each ends on its own."""
    old = record_line("old.a", not_after=NOW // SECOND + 60)
    new = record_line("new.b")

    assert judge("old.a", old, new).client_id == judge("new.b", old, new).client_id == "alpha"
    assert reason(judge("old.a", old, new, now=NOW + 60 * SECOND)) is Reason.API_KEY_EXPIRED


def test_record_never_shows_its_hash():
    """R-07, P-06: what is printed of a record holds no hash to attack."""
    assert hash_key(KEY) not in repr(judge(KEY))


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b"[]",
        b"5",
        record_line(id=""),
        record_line(id="a.b"),
        record_line(id="x" * 65),
        record_line(sha256="AB" * 32),
        record_line(sha256="ab"),
        record_line(client_id=""),
        record_line(scopes="accounts"),
        record_line(scopes=[1]),
        record_line(not_after="tomorrow"),
        record_line(not_after=True),
        record_line(privileged=1),
        record_line(secret="x"),
    ],
)
def test_bad_line_is_named_and_nothing_is_loaded(line):
    """A key file is taken whole or not at all, and the error quotes no hash."""
    with pytest.raises(KeyFileInvalid, match="line 2") as caught:
        index_keys([b"# keys", line])
    assert hash_key(KEY) not in str(caught.value)


def test_same_id_twice_is_refused():
    """Two records under one id would make the look-up a matter of order."""
    with pytest.raises(KeyFileInvalid, match="stands twice"):
        index_keys([record_line(), record_line()])


@given(st.text())
def test_no_text_raises_or_passes(text):
    """Whatever is presented, it is a refusal unless it is the key."""
    assert isinstance(judge(text), Deny) == (text != KEY)
