"""Every row of the tour holds through real Envoy."""

import pytest

from demo.cases import CASES
from demo.drills import DRILLS
from demo.tour import run_case, run_drill


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
async def test_a_single_request_is_answered_as_the_tour_says(world, case):
    row = await run_case(world, case)
    assert row.ok, f"expected {row.expected}, got {row.got}"


@pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill.__name__)
async def test_a_drill_ends_as_the_tour_says(world, drill):
    row = await run_drill(world, drill)
    assert row.ok, f"expected {row.expected}, got {row.got}"
