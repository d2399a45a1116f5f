"""Bytes of `envoy.service.ratelimit.v3` to a question, and an answer to bytes."""

from collections.abc import Sequence

from google.protobuf.message import DecodeError

from model.fields import Fields, limit_fields, wait_seconds
from model.instant import SECOND, whole_seconds
from model.problem import MEDIA_TYPE, Extension, problem_document
from model.reason import Reason
from pb.ratelimit_common_pb2 import RateLimitDescriptor
from pb.ratelimit_pb2 import RateLimitRequest, RateLimitResponse
from ratelimit.question import Answer, Descriptor, Question, QuestionInvalid, Status

OK = RateLimitResponse.OK
OVER_LIMIT = RateLimitResponse.OVER_LIMIT


def read_question(data: bytes) -> Question:
    """Read a `RateLimitRequest`. Raises QuestionInvalid where the bytes are none."""
    request = RateLimitRequest()
    try:
        request.ParseFromString(data)
    except DecodeError as error:
        raise QuestionInvalid("rate limit request cannot be parsed") from error
    return Question(request.domain, tuple(map(_read_descriptor, request.descriptors)), request.hits_addend)


def write_answer(answer: Answer, families: Sequence[str] = (), *, problems: bool = True) -> bytes:
    """Write a `RateLimitResponse`.

    `families` are the families of rate limit fields that the client is to see (see `model.fields`). With `problems` a
    refusal brings an RFC 9457 document as its body. `Retry-After` is there wherever the request is refused.
    """
    response = RateLimitResponse(overall_code=OVER_LIMIT if answer.refused else OK)
    for status in answer.statuses:
        _write_status(response.statuses.add(), status)
    for name, value in _list_fields(answer, families, problems):
        response.response_headers_to_add.add(key=name, value=value)
    if answer.refused and problems:
        response.raw_body = write_problem(answer).encode()
    if answer.metadata is not None:
        response.dynamic_metadata.update(answer.metadata)
    return response.SerializeToString()


def write_problem(answer: Answer) -> str:
    """Write the problem document of a refusal: every limit that refused, and more of the one that refuses longest.

    `scope` is made of the descriptor's keys, not of values: a value may be a credential.
    """
    refusing = [(status, status.rule) for status in answer.statuses if status.refusing and status.rule is not None]
    status, rule = max(refusing, key=lambda refused: refused[0].reset)
    wait = whole_seconds(status.reset)
    extensions: dict[str, Extension] = {
        "violated-policies": list(dict.fromkeys(other.quota.name for _, other in refusing)),
        "limit": rule.quota.name,
        "scope": list(status.scope),
        "quota": rule.quota.count,
        "window": rule.quota.period // SECOND,
        "remaining": 0,
        "reset": wait,
        "retry_after": wait,
    }
    return problem_document(Reason.QUOTA_EXCEEDED, "", extensions=extensions)


def _read_descriptor(descriptor: RateLimitDescriptor) -> Descriptor:
    return Descriptor(
        entries=tuple([(entry.key, entry.value) for entry in descriptor.entries]),
        hits=descriptor.hits_addend.value if descriptor.HasField("hits_addend") else None,
        negative=descriptor.is_negative_hits,
        limit=(descriptor.limit.requests_per_unit, descriptor.limit.unit) if descriptor.HasField("limit") else None,
    )


def _write_status(written: RateLimitResponse.DescriptorStatus, status: Status) -> None:
    written.code = OVER_LIMIT if status.over else OK
    written.limit_remaining = status.remaining
    rule = status.rule
    if rule is None or rule.unit is None:
        return
    limit = written.current_limit
    limit.requests_per_unit = rule.quota.count
    limit.unit = rule.unit.value  # type: ignore[assignment]  # the numbers of Unit are the wire's own
    limit.name = rule.name
    # Whole seconds, rounded up: Envoy cuts off the rest for its X-RateLimit-Reset.
    written.duration_until_reset.seconds = -(-status.reset // SECOND)


def _list_fields(answer: Answer, families: Sequence[str], problems: bool) -> Fields:
    fields = limit_fields(answer.limits, families)
    if not answer.refused:
        return fields
    fields += (("retry-after", str(wait_seconds(answer.limits) or 1)),)
    return (*fields, ("content-type", MEDIA_TYPE)) if problems else fields
