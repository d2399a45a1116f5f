"""What the feed told stays on disk, also where the disk was full for a while."""

from authz.denylist import Entry, Subject
from sidecar.revoked import FILE, Revoked, load_denylist
from tests.sidecar.build import until


async def test_a_list_that_could_not_be_saved_is_saved_once_that_is_possible(tmp_path, monkeypatch, caplog):
    """A task that dies at the first full disk would let a restart forget everything that came later."""
    monkeypatch.setattr("sidecar.revoked.PAUSE", 0)
    monkeypatch.setattr("sidecar.revoked.AGAIN", 0)
    state = tmp_path / "state"
    state.write_text("in the way")
    revoked = Revoked(tmp_path / "state", "one", lambda: 0, lambda _good: None)
    monkeypatch.setattr("sidecar.revoked.load_denylist", lambda _state: revoked.denylist)
    await revoked.start()
    revoked.denylist.add(Entry(Subject.CLIENT, "rogue"))
    revoked._note(revoked.denylist)
    await until(lambda: "revocations not saved" in caplog.text)
    state.unlink()
    await until((state / FILE).exists)
    await revoked.close()

    assert load_denylist(state).revokes(Subject.CLIENT, "", "rogue", None, 0)


async def test_an_end_is_no_failure_where_the_list_cannot_be_saved(tmp_path, caplog):
    revoked = Revoked(tmp_path, "one", lambda: 0, lambda _good: None)
    await revoked.start()
    (tmp_path / FILE).mkdir()
    revoked._note(revoked.denylist)
    await revoked.close()
    assert "revocations not saved" in caplog.text
