"""docs/reports.md speaks of every public report, and every test that it names exists."""

import ast
import re
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
ROWS = [
    tuple(cell.strip() for cell in line.strip("| ").split(" | "))
    for line in (ROOT.parent / "docs" / "reports.md").read_text().splitlines()
    if re.match(r"\| [A-Z]-\d\d \|", line)
]
NUMBERS = {
    "J": [1, 3, 5, 6, 8, 9, 10, 11, 14, 15, 17, 18, 19, 20, 21, 23, 24, 27],
    "C": [1, 3, 4, 6, 8, 9, 10, 12],
    "H": [1, 3, 5, 6, 8, 9, 11, 13, 14, 15, 16, 17, 18],
    "R": [1, 3, 6, 7, 8, 10, 11, 13, 14, 15],
    "D": [2, 4, 5, 6, 7, 8, 10, 12],
    "G": [1, 3, 4, 5, 6, 9],
    "F": [1, 3, 6, 8, 9, 10, 11],
    "P": [1, 2, 4, 6, 8],
    "M": [1, 2, 3, 5, 6, 8, 9, 11, 12, 13],
    "O": [1, 3, 4],
}
REPORTS = [f"{letter}-{number:02}" for letter, numbers in NUMBERS.items() for number in numbers]


@lru_cache
def functions_of(file):
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    nodes = ast.walk(ast.parse(path.read_text()))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_report_has_one_row_in_order():
    assert [row[0] for row in ROWS] == REPORTS
    assert len(REPORTS) == 88


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_every_named_test_exists(row):
    _, behaviour, named = row
    references = re.findall(r"`(\S+?)::(\S+?)`", named)
    assert behaviour
    assert references
    assert [(file, name) for file, name in references if name not in functions_of(file)] == []
