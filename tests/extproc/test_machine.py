"""The order of phases, as the table says it."""

from itertools import product
from pathlib import Path

import pytest

from extproc.machine import TABLE, Machine, Phase, PhaseUnexpected, State

ROOT = Path(__file__).parent.parent.parent


def test_every_state_has_a_row():
    """The table is whole: no state is left without a word on what may follow."""
    assert set(TABLE) == set(State)


@pytest.mark.parametrize(("state", "phase"), list(product(State, Phase)))
def test_event_moves_as_the_table_says_or_fails(state, phase):
    """An event that the table does not list is a broken protocol, never a guess."""
    machine = Machine(state)
    if phase in TABLE[state]:
        machine.enter(phase)
        assert machine.state is TABLE[state][phase]
    else:
        with pytest.raises(PhaseUnexpected):
            machine.enter(phase)
        assert machine.state is state


def test_nothing_is_legal_after_the_end():
    """Once the last reply was given no further event is answered (one reply per event, CVE-2026-47207)."""
    machine = Machine()
    machine.end()
    for phase in Phase:
        with pytest.raises(PhaseUnexpected):
            machine.enter(phase)


def test_picture_in_the_docs_is_drawn_from_the_table():
    """docs/extproc.md shows each move that the table allows and no other."""
    lines = [f"    {state} --> {target}: {phase}" for state, row in TABLE.items() for phase, target in row.items()]
    page = (ROOT / "docs" / "extproc.md").read_text(encoding="utf-8")

    assert [line for line in page.splitlines() if " --> " in line] == lines
