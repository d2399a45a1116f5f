"""The rate limit fields, held against http-sf and the structured field vectors of the HTTP working group."""

import json
import os
from pathlib import Path

import http_sf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.fields import FAMILIES, find_tightest, limit_fields, wait_seconds, write_string
from model.instant import HOUR, MILLISECOND, MINUTE, SECOND
from model.quota import Outcome, Quota

VECTORS = Path(os.environ.get("WARDGATE_VECTORS", "../shared/vectors")) / "structured-field-tests"

MINUTELY = Quota("minute", 60, MINUTE, 60)
HOURLY = Quota("hour", 1000, HOUR, 1000)


def passed(remaining: int, reset: int = SECOND) -> Outcome:
    return Outcome(allowed=True, remaining=remaining, retry_after=0, reset=reset)


def refused(retry_after: int, remaining: int = 0, reset: int = HOUR) -> Outcome:
    return Outcome(allowed=False, remaining=remaining, retry_after=retry_after, reset=reset)


def fields(limits, *families: str) -> dict[str, str]:
    return dict(limit_fields(limits, families))


def test_the_draft_family_lists_each_policy_and_what_is_left_of_it_under_the_same_name():
    written = fields([(MINUTELY, passed(56, 4 * SECOND)), (HOURLY, passed(900, 90 * SECOND))], "draft")
    assert written == {
        "ratelimit-policy": '"minute";q=60;w=60, "hour";q=1000;w=3600',
        "ratelimit": '"minute";r=56;t=4, "hour";r=900;t=90',
    }


def test_a_part_of_a_second_is_rounded_up_so_that_no_client_comes_too_early():
    written = fields([(MINUTELY, passed(56, 4 * SECOND + 1))], "draft")
    assert written["ratelimit"] == '"minute";r=56;t=5'


def test_a_refusal_promises_the_instant_of_its_retry_after_and_not_that_of_a_full_bucket():
    """draft-11: Retry-After should not be earlier than the end of the effective window."""
    limits = [(MINUTELY, refused(1500 * MILLISECOND, reset=MINUTE))]
    assert fields(limits, "draft")["ratelimit"] == '"minute";r=0;t=2'
    assert wait_seconds(limits) == 2


def test_a_period_that_is_no_whole_second_has_no_window_parameter():
    quota = Quota("fast", 5, 1500 * MILLISECOND, 5)
    assert fields([(quota, passed(4))], "draft")["ratelimit-policy"] == '"fast";q=5'


def test_a_quota_of_places_says_so_and_promises_no_instant():
    quota = Quota("streams", 3, 30 * SECOND, 3, concurrent=True)
    assert fields([(quota, passed(2))], "draft") == {
        "ratelimit-policy": '"streams";q=3;qu="concurrent-requests"',
        "ratelimit": '"streams";r=2',
    }


def test_a_trial_quota_is_never_shown_to_a_client():
    trial = Quota("trial", 1, MINUTE, 1, enforced=False)
    assert limit_fields([(trial, refused(SECOND))], list(FAMILIES)) == ()
    assert wait_seconds([(trial, refused(SECOND))]) is None
    assert fields([(trial, refused(SECOND)), (MINUTELY, passed(5))], "remaining") == {"x-ratelimit-remaining": "5"}


def test_without_a_limit_there_is_no_field():
    assert limit_fields([], ["draft", "remaining"]) == ()


def test_an_unknown_family_is_a_fault_of_the_caller():
    with pytest.raises(KeyError):
        limit_fields([(MINUTELY, passed(1))], ["draft-03"])


def test_r_08_a_refusal_describes_the_limit_that_refused_and_not_the_one_that_passed():
    """R-08: minute tier has 56 left, hour tier is exhausted for 50 minutes."""
    limits = [(MINUTELY, passed(56)), (HOURLY, refused(3000 * SECOND))]
    assert find_tightest(limits)[0] is HOURLY
    assert wait_seconds(limits) == 3000
    assert fields(limits, "remaining", "x-ratelimit", "ratelimit-legacy") == {
        "x-ratelimit-remaining": "0",
        "x-ratelimit-limit": '1000, 60;w=60;name="minute", 1000;w=3600;name="hour"',
        "x-ratelimit-reset": "3000",
        "ratelimit-limit": "1000",
        "ratelimit-remaining": "0",
        "ratelimit-reset": "3000",
    }


def test_r_08_of_several_limits_that_refuse_the_longest_wait_counts():
    limits = [(MINUTELY, refused(20 * SECOND)), (HOURLY, refused(50 * MINUTE)), (MINUTELY, passed(0))]
    assert find_tightest(limits)[0] is HOURLY
    assert wait_seconds(limits) == 3000


def test_r_08_of_limits_that_passed_the_fewest_left_counts_and_of_equals_the_longest_reset():
    slow = Quota("slow", 5, HOUR, 5)
    assert find_tightest([(MINUTELY, passed(7)), (HOURLY, passed(3)), (slow, passed(3, HOUR))])[0] is slow


@given(st.text(max_size=40))
def test_any_name_is_written_as_a_string_that_another_parser_reads(name):
    quota = Quota(name, 10, MINUTE, 10)
    written = fields([(quota, passed(9, SECOND)), (MINUTELY, passed(3))], "draft")
    policy = http_sf.parse(written["ratelimit-policy"].encode("ascii"), tltype="list")
    service = http_sf.parse(written["ratelimit"].encode("ascii"), tltype="list")
    assert [parameters for _, parameters in policy] == [{"q": 10, "w": 60}, {"q": 60, "w": 60}]
    assert [parameters for _, parameters in service] == [{"r": 9, "t": 1}, {"r": 3, "t": 1}]
    assert [item for item, _ in policy] == [item for item, _ in service]
    if name.isascii() and name.isprintable():
        assert policy[0][0] == name


@given(st.integers(-1, 2**80), st.integers(0, 2**80), st.integers(1, 2**90))
def test_any_number_stays_within_what_a_structured_field_can_hold(count, remaining, duration):
    quota = Quota("big", count, duration, count)
    written = fields([(quota, passed(remaining, duration))], "draft")
    for value in written.values():
        parameters = http_sf.parse(value.encode("ascii"), tltype="list")[0][1]
        assert all(0 <= number <= 999_999_999_999_999 for number in parameters.values())
        assert parameters.get("w", 1) > 0


@pytest.mark.vectors
def test_strings_are_serialised_as_the_working_groups_vectors_say():
    suite = VECTORS / "string.json"
    if not suite.exists():
        pytest.skip("structured-field-tests left out: WARDGATE_VECTORS has no such folder")
    cases = json.loads(suite.read_text()) + json.loads((VECTORS / "string-generated.json").read_text())
    tried = 0
    for case in cases:
        if case.get("must_fail") or case["header_type"] != "item" or not isinstance(case["expected"][0], str):
            continue
        canonical = case.get("canonical", case["raw"])
        assert write_string(case["expected"][0]) == canonical[0], case["name"]
        tried += 1
    assert tried > 90


@pytest.mark.vectors
def test_what_no_string_may_hold_is_never_written_as_it_is():
    suite = VECTORS / "serialisation-tests" / "string-generated.json"
    if not suite.exists():
        pytest.skip("structured-field-tests left out: WARDGATE_VECTORS has no such folder")
    for case in json.loads(suite.read_text()):
        forbidden = case["expected"][0]
        written = write_string(forbidden)
        assert forbidden not in written, case["name"]
        assert http_sf.parse(written.encode("ascii"), tltype="item")[0] == f"%{ord(forbidden):02X}"
