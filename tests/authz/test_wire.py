"""Envoy's bytes to a request, and a verdict to Envoy's bytes."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from authz.wire import CheckMalformed, HeaderInvalid, is_field, read_check, write_verdict
from model.reason import TABLE, Reason
from model.request import Request
from model.verdict import Allow, Caller, Deny
from pb import ext_authz_pb2 as pb
from tests.authz.build import NOW, certificate, check_bytes, judge, request, resident, route, snapshot

OVERWRITE = 2
APPEND = 0


def answer(verdict, **kwargs):
    return pb.CheckResponse.FromString(write_verdict(verdict, kwargs.pop("request", Request(id="req-1")), **kwargs))


def headers_of(options):
    return [(option.header.key, option.header.value) for option in options]


@pytest.mark.parametrize("raw", [True, False])
def test_request_is_read_from_both_encodings_of_headers(raw):
    """Raw header lines are preferred, the joined map is understood."""
    asked = request(certificate=certificate(), headers={"accept": "a/b"})

    read = read_check(check_bytes(asked, raw=raw), NOW)

    asked.headers["x-request-id"] = "req-1"
    assert read == asked


def test_repeated_lines_are_seen_in_raw_headers():
    """Each line counts, and none wins (bug report H-06)."""
    lines = [("authorization", "Bearer a"), ("authorization", "Bearer b"), ("accept", "x")]

    read = read_check(check_bytes(request(), lines=lines), NOW)

    assert read.repeated == {"authorization"}
    assert read.headers["authorization"] == "Bearer a, Bearer b"


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("second", ["Bearer B", "Bearer A"])
def test_two_authorization_lines_are_refused_in_both_encodings(raw, second):
    """Also where both are the same."""
    data = check_bytes(request(), raw=raw, lines=[("authorization", "Bearer A"), ("authorization", second)])

    assert judge(read_check(data, NOW)).reason is Reason.CREDENTIALS_AMBIGUOUS


def test_raw_octets_survive_as_latin_1():
    """A value that is not UTF-8 is a value, not a fault of the message (CVE-2023-27488)."""
    read = read_check(check_bytes(request(), lines=[("x-odd", "\xff\xfe")]), NOW)

    assert read.headers["x-odd"] == "\xff\xfe"


def test_names_are_read_in_lower_case():
    """Whatever wrote them."""
    assert read_check(check_bytes(request(), lines=[("X-Api-Key", "k")]), NOW).headers["x-api-key"] == "k"


def test_stream_id_stands_in_for_a_missing_request_id():
    """A refusal always names something to look for."""
    data = pb.CheckRequest()
    data.attributes.request.http.id = "stream-1"

    assert read_check(data.SerializeToString(), NOW).id == "stream-1"


def test_long_request_id_is_cut():
    """It goes into logs, documents and contexts, and a client may have chosen it."""
    assert read_check(check_bytes(request(id="r" * 9000)), NOW).id == "r" * 128


def test_empty_message_is_an_empty_request():
    """Nothing is made up."""
    assert read_check(b"", NOW) == Request(received=NOW)


@given(st.binary(max_size=200))
@example(b"\xff")
@example(b"\x0a\xff\xff\xff\xff\x0f")
def test_any_bytes_are_a_request_or_malformed(data):
    """Nothing else is ever raised."""
    try:
        assert isinstance(read_check(data, NOW), Request)
    except CheckMalformed:
        assert data


def test_text_that_is_not_utf_8_is_malformed():
    """Where Envoy promises text, octets are refused and not guessed at."""
    data = bytearray(check_bytes(request(path="/v1/QQ")))
    place = data.index(b"QQ")
    data[place : place + 2] = b"\xff\xfe"

    with pytest.raises(CheckMalformed):
        read_check(bytes(data), NOW)


def test_huge_message_is_read():
    """1 MiB of headers is for Envoy to limit; here it is slow at worst."""
    lines = [(f"x-{number}", "v" * 1000) for number in range(1000)]

    assert len(read_check(check_bytes(request(), lines=lines), NOW).headers) == 1001


@pytest.mark.parametrize("style", ["problem", "tpp-messages"])
@pytest.mark.parametrize("reason", list(Reason))
def test_every_refusal_is_a_whole_answer(reason, style):
    """Status code, denied response with a 4xx or 5xx, and a document that agrees with it (bug reports M-02, M-03)."""
    response = answer(Deny(reason), style=style)
    denied = response.denied_response
    body = json.loads(denied.body)
    fields = dict(headers_of(denied.headers))

    assert response.WhichOneof("http_response") == "denied_response"
    assert response.status.code in {7, 16}
    assert 400 <= denied.status.code < 600
    assert denied.status.code == TABLE[reason].status
    assert fields["cache-control"] == "no-store"
    assert (fields.get("retry-after") is not None) == (TABLE[reason].retry_after is not None)
    if style == "problem":
        assert fields["content-type"] == "application/problem+json"
        assert (body["status"], body["request_id"]) == (denied.status.code, "req-1")
    else:
        assert fields["content-type"] == "application/json"
        assert body["tppMessages"][0]["category"] == "ERROR"


def test_every_allowance_is_a_whole_answer():
    """Status 0 and an OK response only (bug report M-03)."""
    response = answer(judge(request(certificate=certificate())))

    assert response.HasField("status")
    assert response.status.code == 0
    assert response.WhichOneof("http_response") == "ok_response"
    assert response.ok_response.headers


def test_what_is_set_overwrites_what_came():
    """Appending would combine ours with the client's."""
    verdict = Allow(Caller(), set_headers=(("x-a", "1"),), answer_headers=(("x-b", "2"),))
    ok = answer(verdict).ok_response

    assert [option.append_action for option in (*ok.headers, *ok.response_headers_to_add)] == [OVERWRITE, OVERWRITE]


def test_one_allowance_says_nothing_of_another_one():
    """Answer fields are written into a form that is used again: also after a value that could not be written."""
    first = Allow(Caller(), answer_headers=(("x-a", "1"), ("x-b", "2")))
    broken = Allow(Caller(), answer_headers=(("x-a", "3"), ("x-b", "\n")))
    last = Allow(Caller(), answer_headers=(("x-a", "5"), ("x-b", "")))
    once = answer(first)
    with pytest.raises(HeaderInvalid):
        answer(broken)

    filled = [dict(headers_of(answer(one).ok_response.response_headers_to_add)) for one in (last, first)]
    assert filled == [{"x-a": "5", "x-b": ""}, {"x-a": "1", "x-b": "2"}]
    assert answer(first) == once


def test_answers_without_end_take_no_memory():
    """A protobuf message keeps the text of every value that was ever set in it, until it goes itself."""

    def write(count):
        for number in range(count):
            fields = (("ratelimit", f'"partner";r={number:0100};t=20'),)
            write_verdict(Allow(Caller(), answer_headers=fields), Request())
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = write(5_000)
    assert write(100_000) - before < 4 * 2**20


def test_removals_of_headers_and_query_are_written():
    """Both kinds, in order."""
    ok = answer(Allow(Caller(), remove_headers=("x-a", "authorization"), remove_query=("api_key",))).ok_response

    assert list(ok.headers_to_remove) == ["x-a", "authorization"]
    assert list(ok.query_parameters_to_remove) == ["api_key"]


def test_each_challenge_is_a_line_of_its_own():
    """Several schemes are several header fields."""
    denied = answer(Deny(Reason.CREDENTIAL_MISSING, challenges=("Bearer", "ApiKey"))).denied_response
    lines = [option for option in denied.headers if option.header.key == "www-authenticate"]

    assert [line.header.value for line in lines] == ["Bearer", "ApiKey"]
    assert all(line.append_action == APPEND for line in lines)


def test_wait_of_the_refusal_overrides_that_of_the_table_and_is_at_least_one_second():
    """Whole seconds, never 0."""
    for wait, written in ((90, "90"), (0, "1")):
        denied = answer(Deny(Reason.QUOTA_EXCEEDED, retry_after=wait)).denied_response
        assert dict(headers_of(denied.headers))["retry-after"] == written


BAD = ["a\r\nx-evil: 1", "a\nb", "a\0b", "é", "a\tb", "\x7f"]


@pytest.mark.parametrize("value", BAD)
def test_value_that_would_break_its_line_is_never_written(value):
    """An allowance with one is refused whole; a refusal goes out without the field."""
    for fields in ({"set_headers": (("x-a", value),)}, {"answer_headers": (("x-a", value),)}):
        with pytest.raises(HeaderInvalid):
            write_verdict(Allow(Caller(), **fields), Request())
    denied = answer(Deny(Reason.SCOPE_MISSING, answer_headers=(("x-a", value),), challenges=(value,))).denied_response

    assert {name for name, _ in headers_of(denied.headers)} == {"content-type", "cache-control"}


@pytest.mark.parametrize("name", ["", ":path", "host", "X-Upper", "x a", "x\n", "x:y", "é"])
def test_name_that_is_none_or_steers_the_request_is_never_written(name):
    """Pseudo-headers and Host would change where the request goes."""
    assert not is_field(name, "v")
    assert not answer(Allow(Caller(), remove_headers=(name,))).ok_response.headers_to_remove


@given(st.text(max_size=30), st.text(max_size=30))
def test_whatever_is_written_is_one_field(name, value):
    """No text that passes can end its line, begin another, or be a pseudo-header."""
    if is_field(name, value):
        assert name
        assert not any(letter in name + value for letter in "\r\n\0")
        assert ":" not in name
        assert name == name.lower()


@given(st.dictionaries(st.sampled_from(["sub", "client_id", "tenant", "scope", "jti"]), st.text(max_size=40)))
def test_no_claim_can_inject_a_header(claims):
    """Whatever a token says, every field that leaves is printable ASCII on one line (pitfall 48)."""
    from authz.resident import FixedKeys
    from model.snapshot import Requirement
    from tests.authz import tokens

    house = resident(
        snapshot(issuer=tokens.issuer(tier="partner"), routes=(route(requirement=Requirement()),)),
        keys=FixedKeys(tokens.trust(tier="partner")),
    )
    response = answer(judge(request(bearer=tokens.token(**claims)), house))
    options = [*response.ok_response.headers, *response.ok_response.response_headers_to_add]
    options += response.denied_response.headers

    assert options
    assert all(is_field(option.header.key, option.header.value) for option in options)
