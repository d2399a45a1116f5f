"""The table of docs/security.md names every pitfall once and only tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROW = re.compile(r"^\| (\d+) \| (.+) \| (.+) \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / "security.md").read_text(encoding="utf-8"))
WITHOUT = {"36", "43", "45"}
"""Pitfalls for which a reason stands in the place of a test."""


def test_every_pitfall_has_its_row():
    """1 to 53, in order."""
    assert [number for number, _, _ in ROWS] == [str(number) for number in range(1, 54)]


@pytest.mark.parametrize(("number", "answer"), [(number, answer) for number, _, answer in ROWS])
def test_named_test_exists(number, answer):
    """A row names a file and a function in it; the few that name none say why."""
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", answer)

    assert bool(named) is (number not in WITHOUT)
    for path, name in named:
        assert re.search(rf"\bdef {name}\(", (ROOT / path).read_text(encoding="utf-8")), (path, name)
