"""An answer is held against what was expected, and every refusal against the rules of problem documents."""

import json

import pytest

from demo.client import Reply
from demo.row import PROBLEM, Expect, complaints, describe, look_up

WHOLE = {"type": "urn:problem-type:wardgate:scope-missing", "title": "t", "status": 403, "request_id": "r"}


def refusal(document=None, media_type=PROBLEM, status=403, **headers):
    fields = [("content-type", media_type), *((name.replace("_", "-"), value) for name, value in headers.items())]
    return Reply(status, fields, json.dumps(WHOLE if document is None else document).encode(), 0.001)


def test_a_whole_refusal_has_no_complaint():
    expect = Expect(403, "scope-missing", {"www-authenticate": "Bearer.*", "retry-after": None})
    assert complaints(refusal(www_authenticate="Bearer x"), expect) == []


@pytest.mark.parametrize("member", ["type", "title", "request_id", "status"])
def test_a_member_missing_from_a_problem_document_is_a_complaint(member):
    document = {name: value for name, value in WHOLE.items() if name != member}
    assert any(member in complaint for complaint in complaints(refusal(document), Expect(403)))


def test_a_refusal_of_another_media_type_is_a_complaint():
    assert complaints(refusal(media_type="text/plain"), Expect(403)) == ["content-type text/plain"]


@pytest.mark.parametrize(
    "expect",
    [
        Expect(401),
        Expect(403, "role-missing"),
        Expect(403, headers={"retry-after": r"\d+"}),
        Expect(403, headers={"content-type": None}),
        Expect(403, members={"title": "other"}),
    ],
)
def test_each_difference_is_a_complaint(expect):
    assert len(complaints(refusal(), expect)) == 1


def test_paths_lead_through_objects_and_lists():
    document = {"a": [{"b": 1}]}
    assert look_up(document, "a.0.b") == 1
    assert look_up(document, "a.1.b") is None
    assert look_up(document, "a.0.b.c") is None


def test_an_answer_is_described_by_status_and_slug():
    assert describe(refusal()) == "403 scope-missing"
    assert describe(Reply(200, (), b"[]", 0.0)) == "200"
