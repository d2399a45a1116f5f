"""Revocations: what is named is refused, from and until when it says, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.denylist import NEVER, Denylist, Entry, EntryInvalid, Subject, read_entry, read_list
from model.instant import SECOND

NOW = 1_800_000_000 * SECOND


def listed(*entries):
    denylist = Denylist()
    for entry in entries:
        denylist.add(entry)
    return denylist


@pytest.mark.parametrize("subject", Subject)
def test_named_fact_is_revoked_and_its_neighbours_are_not(subject):
    """An entry hits its own subject, scope and name only."""
    denylist = listed(Entry(subject, "x", "issuer"))

    assert denylist.revokes(subject, "issuer", "x", None, NOW)
    assert not denylist.revokes(subject, "issuer", "y", None, NOW)
    assert not denylist.revokes(subject, "other", "x", None, NOW)
    assert not any(denylist.revokes(other, "issuer", "x", None, NOW) for other in Subject if other is not subject)


def test_cut_off_spares_what_was_issued_after_it():
    """A client that was compromised at an instant may use what it got later."""
    denylist = listed(Entry(Subject.CLIENT, "c", before=NOW))

    assert denylist.revokes(Subject.CLIENT, "", "c", NOW, NOW)
    assert not denylist.revokes(Subject.CLIENT, "", "c", NOW + 1, NOW)


def test_credential_without_issue_time_falls_under_every_cut_off():
    """What cannot be shown to be newer is taken for older."""
    assert listed(Entry(Subject.CLIENT, "c", before=NOW)).revokes(Subject.CLIENT, "", "c", None, NOW)


def test_entry_holds_until_its_last_instant():
    """Kept until expiry plus leeway, which the publisher has put into `expires`."""
    denylist = listed(Entry(Subject.TOKEN, "jti", "iss", expires=NOW))

    assert denylist.revokes(Subject.TOKEN, "iss", "jti", None, NOW)
    assert not denylist.revokes(Subject.TOKEN, "iss", "jti", None, NOW + 1)


def test_second_entry_never_weakens_the_first():
    """The wider cut-off and the later end of two entries stay, in whatever order they come."""
    narrow = Entry(Subject.CLIENT, "c", before=NOW, expires=NOW + 5)
    wide = Entry(Subject.CLIENT, "c", expires=NOW + 1)
    for denylist in (listed(narrow, wide), listed(wide, narrow)):
        assert denylist.revokes(Subject.CLIENT, "", "c", NOW + 4, NOW + 5)


def test_forgetting_drops_the_expired_and_nothing_else():
    """The list is bounded by what could still be presented."""
    denylist = listed(Entry(Subject.TOKEN, "old", "i", expires=NOW - 1), Entry(Subject.TOKEN, "new", "i", expires=NOW))

    assert denylist.forget(NOW) == 1
    assert len(denylist) == 1
    assert denylist.revokes(Subject.TOKEN, "i", "new", None, NOW)


def test_taking_back_lets_the_credential_pass_again():
    """A revocation made by mistake can be undone."""
    denylist = listed(Entry(Subject.CLIENT, "c"))
    denylist.remove(Entry(Subject.CLIENT, "c", before=NOW))

    assert not denylist.revokes(Subject.CLIENT, "", "c", None, NOW)


entries = st.builds(
    Entry,
    subject=st.sampled_from(Subject),
    name=st.text(min_size=1),
    scope=st.text(),
    before=st.none() | st.integers(0, 2**33).map(lambda s: s * SECOND),
    expires=st.just(NEVER) | st.integers(0, 2**33).map(lambda s: s * SECOND),
)


@given(entries)
def test_entry_reads_back_from_its_line(entry):
    """One entry is one line, whatever its names hold."""
    assert "\n" not in entry.line()
    assert read_entry(entry.line()) == entry


@given(st.lists(entries, max_size=20))
def test_list_reads_back_from_its_lines(some):
    """A sidecar that restarts from disk refuses what it refused before."""
    denylist = listed(*some)

    assert read_list(denylist.lines()).marks == denylist.marks


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "{}",
        '{"subject":"token"}',
        '{"subject":"tokens","name":"x"}',
        '{"subject":"token","name":""}',
        '{"subject":"token","name":5}',
        '{"subject":"token","name":"x","scope":null}',
        '{"subject":"token","name":"x","before":"soon"}',
        '{"subject":"token","name":"x","before":true}',
        '{"subject":"token","name":"x","expires":-1}',
        '{"subject":"token","name":"x","expires":1e400}',
        '{"subject":"token","name":"x","extra":1}',
        '{"subject":{},"name":"x"}',
        "[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_line_that_is_no_entry_is_refused(line):
    """A bad line is an error of its own kind, never another exception and never a silent miss."""
    with pytest.raises(EntryInvalid):
        read_entry(line)


def test_bad_line_of_a_file_is_named_by_its_number():
    """The operator learns where to look."""
    with pytest.raises(EntryInvalid, match="line 3"):
        read_list(["# comment", "", "nonsense"])
