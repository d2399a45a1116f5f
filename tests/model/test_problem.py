"""Problem documents: RFC 9457 members, a status that agrees, nothing that breaks JSON."""

import json

import pytest

from model.problem import problem_document
from model.reason import TABLE, Reason


@pytest.mark.parametrize("reason", Reason)
def test_document_agrees_with_the_table(reason):
    """M-03: `status` equals the HTTP status, `type` and `title` are the table's."""
    document = json.loads(problem_document(reason, "id-1"))

    assert document["status"] == TABLE[reason].status
    assert document["type"] == TABLE[reason].type
    assert document["request_id"] == "id-1"


def test_extension_members_stand_beside_the_standard_ones():
    """A refusal by a limit names what was violated."""
    document = json.loads(
        problem_document(Reason.QUOTA_EXCEEDED, "", extensions={"violated-policies": ["partner"], "limit": 600})
    )

    assert document["violated-policies"] == ["partner"]
    assert document["limit"] == 600
    assert "request_id" not in document


def test_detail_is_escaped_to_one_ascii_line():
    """P-08: no text of a client can break the document or a log line that holds it."""
    text = problem_document(Reason.REQUEST_MALFORMED, "x\r\ny", detail='a"b\x00\x1b\u2028')

    assert text.isascii()
    assert "\n" not in text
    assert json.loads(text)["detail"] == 'a"b\x00\x1b\u2028'
