"""Bytes in and out, held against envoy-data-plane as the independent other side."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from model.instant import MINUTE, SECOND
from model.quota import Outcome
from pb.ratelimit_pb2 import RateLimitRequest, RateLimitResponse
from ratelimit.question import Answer, Descriptor, Question, QuestionInvalid, Status
from ratelimit.rules import Rule, Unit, make_quota
from ratelimit.wire import read_question, write_answer

RULE = Rule("d.user", make_quota("user", 10, Unit.MINUTE), Unit.MINUTE, name="per user")


def refusal(wait: int = 30 * SECOND) -> Answer:
    outcome = Outcome(allowed=False, remaining=0, retry_after=wait, reset=MINUTE)
    status = Status(exceeded=True, over=True, refusing=True, rule=RULE, reset=wait, scope=("user",))
    return Answer(refused=True, statuses=(status,), limits=((RULE.quota, outcome),))


def test_a_request_is_read_with_all_of_its_fields():
    request = RateLimitRequest(domain="d", hits_addend=3)
    first = request.descriptors.add(is_negative_hits=True)
    first.entries.add(key="a", value="1")
    first.entries.add(key="b")
    first.limit.requests_per_unit = 5
    first.limit.unit = 4
    request.descriptors.add().hits_addend.value = 0
    assert read_question(request.SerializeToString()) == Question(
        "d",
        (Descriptor((("a", "1"), ("b", "")), None, True, (5, 4)), Descriptor((), 0, False, None)),
        3,
    )


def test_requests_of_another_implementation_are_read_alike():
    v3 = pytest.importorskip("envoy_data_plane.envoy.service.ratelimit.v3")
    common = pytest.importorskip("envoy_data_plane.envoy.extensions.common.ratelimit.v3")
    entry = common.RateLimitDescriptorEntry(key="k", value="v")
    descriptor = common.RateLimitDescriptor(entries=[entry], hits_addend=7)
    data = bytes(v3.RateLimitRequest(domain="d", descriptors=[descriptor], hits_addend=2))
    assert read_question(data) == Question("d", (Descriptor((("k", "v"),), 7),), 2)


def test_answers_are_read_alike_by_another_implementation():
    v3 = pytest.importorskip("envoy_data_plane.envoy.service.ratelimit.v3")
    response = v3.RateLimitResponse.parse(write_answer(refusal(), ["draft"]))
    (status,) = response.statuses
    assert response.overall_code == v3.RateLimitResponseCode.OVER_LIMIT
    assert (status.current_limit.name, status.current_limit.requests_per_unit) == ("per user", 10)
    assert [header.key for header in response.response_headers_to_add] == [
        "ratelimit-policy",
        "ratelimit",
        "retry-after",
        "content-type",
    ]


@given(st.binary(max_size=60))
def test_any_bytes_are_a_question_or_refused_as_one(data):
    try:
        question: Question | None = read_question(data)
    except QuestionInvalid:
        question = None
    try:
        request = RateLimitRequest.FromString(data)
    except DecodeError:
        assert question is None
    else:
        assert question.domain == request.domain
        assert len(question.descriptors) == len(request.descriptors)


def test_a_wait_is_written_in_whole_seconds_rounded_up_because_envoy_cuts_off_the_rest():
    response = RateLimitResponse.FromString(write_answer(refusal(wait=1_200_000_000)))
    assert response.statuses[0].duration_until_reset.seconds == 2
    assert response.statuses[0].duration_until_reset.nanos == 0
    assert {header.key: header.value for header in response.response_headers_to_add}["retry-after"] == "2"


def test_a_status_without_a_rule_has_no_limit():
    response = RateLimitResponse.FromString(write_answer(Answer(refused=False, statuses=(Status(),))))
    assert response.overall_code == RateLimitResponse.OK
    assert not response.statuses[0].HasField("current_limit")
    assert not response.statuses[0].HasField("duration_until_reset")


def test_metadata_of_every_plain_kind_survives():
    metadata = {"text": "a", "number": 1.5, "flag": True, "none": None, "list": [1.0, "x"], "deep": {"a": {"b": "c"}}}
    answer = Answer(refused=False, statuses=(), metadata=metadata)
    assert RateLimitResponse.FromString(write_answer(answer)).dynamic_metadata == metadata
