"""JSON bodies: a member that the backend does not have is named, whatever is right passes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.body import find_fault
from model.snapshot import Body

BODY = Body(
    "Payment",
    {
        "Payment": {
            "debtor": "Account",
            "amount": "",
            "endToEndId": "",
            "end_to_end_id": "",
            "lines": "Line",
            "notes": "map:",
            "parties": "map:Account",
            "extra": "",
            "parent": "Payment",
        },
        "Account": {"iban": ""},
        "Line": {"text": ""},
    },
)


def fault(value):
    return find_fault(json.dumps(value).encode(), BODY)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"amount": "5", "debtor": {"iban": "x"}},
        {"endToEndId": "a"},
        {"end_to_end_id": "a"},
        {"lines": [{"text": "a"}, {}, None]},
        {"notes": {"anything": "goes"}},
        {"parties": {"anyone": {"iban": "x"}}},
        {"extra": {"not": {"looked": ["into"]}}},
        {"parent": {"parent": {"amount": "1"}}},
        {"debtor": None},
    ],
)
def test_known_members_pass_in_both_spellings(value):
    """The JSON name and the proto name, in messages, arrays and maps; what has a JSON form of its own is left alone."""
    assert fault(value) is None


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"amuont": "5"}, "amuont"),
        ({"debtor": {"iban": "x", "bic": "y"}}, "bic"),
        ({"lines": [{"text": "a"}, {"txet": "b"}]}, "txet"),
        ({"parties": {"anyone": {"ibn": "x"}}}, "ibn"),
        ({"parent": {"parent": {"x": 1}}}, "x"),
        ({"Amount": "5"}, "Amount"),
        ({"": 1}, '""'),
    ],
)
def test_unknown_member_is_named(value, named):
    """M-11: the client learns which one it was."""
    assert named in fault(value)


def test_name_of_a_member_is_shown_short_and_escaped():
    """P-08: what a client chose as a name cannot break the line."""
    assert len(fault({"x\n\x1b" * 1000: 1})) < 500
    assert "\n" not in fault({"x\n": 1})


@pytest.mark.parametrize("body", [b"{", b"nonsense", b"\xff", b'{"amount":NaN}', b"[" * 100_000, b'{"amount":1'])
def test_what_is_no_json_is_said_to_be_none(body):
    """Never an exception."""
    assert find_fault(body, BODY).startswith("The body is")


def test_member_twice_is_refused():
    """Two amounts are two answers to what is to be paid."""
    assert "twice" in find_fault(b'{"amount":"1","amount":"2"}', BODY)


@pytest.mark.parametrize("body", [b"", b"  \n"])
def test_empty_body_is_an_empty_message(body):
    """Envoy makes an empty message of it."""
    assert find_fault(body, BODY) is None


def test_depth_has_an_end():
    """A body nested beyond what protobuf takes is refused here."""
    value = {}
    for _ in range(200):
        value = {"parent": value}
    assert "nested" in fault(value)


@given(st.binary(max_size=200))
def test_no_body_raises(body):
    """Bytes are a sentence or nothing."""
    assert find_fault(body, BODY) is None or find_fault(body, BODY).endswith(".")
