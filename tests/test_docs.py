"""The documents speak of files that are there, and of nothing that belongs to somebody's machine."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NAMED = re.compile(
    r"`((?:docs|examples|model|authz|ratelimit|extproc|policy|sidecar|demo|tests|bench|deploy)/[\w./*-]+)`"
)


def label(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_named_files_exist(page):
    """A reader who follows a name finds the file."""
    named = {name.rstrip(".") for name in NAMED.findall(page.read_text(encoding="utf-8"))}

    assert [name for name in sorted(named) if "*" not in name and not (ROOT / name).exists()] == []


def test_every_decision_has_a_number_of_its_own():
    """Decisions are cited by number."""
    numbers = [path.name.split("-")[0] for path in (ROOT / "docs" / "decisions").glob("*.md")]

    assert sorted(numbers) == sorted(set(numbers))
