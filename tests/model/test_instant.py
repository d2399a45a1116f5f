"""Rounding of durations for Retry-After."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.instant import SECOND, whole_seconds


@pytest.mark.parametrize(("duration", "seconds"), [(-5, 1), (0, 1), (1, 1), (SECOND, 1), (SECOND + 1, 2)])
def test_seconds_are_rounded_up_and_at_least_one(duration, seconds):
    """A client that waits as told is never too early and never told to come back at once."""
    assert whole_seconds(duration) == seconds


@given(st.integers(min_value=1, max_value=10**20))
def test_whole_seconds_never_fall_short(duration):
    """The promise covers the duration and less than a second more."""
    assert 0 <= whole_seconds(duration) * SECOND - duration < SECOND
