"""The strict reader: one token has one spelling, and whatever else arrives is refused without an exception."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.strict import (
    DEPTH_LIMIT,
    HEADER_LIMIT,
    KID_LIMIT,
    TOKEN_LIMIT,
    Compact,
    Malformed,
    decode_base64url,
    read_compact,
    read_object,
)
from model.reason import Reason
from model.verdict import Deny
from tests.authz.tokens import encode, sign, token


def refusal(text):
    answer = read_compact(text)
    assert isinstance(answer, Deny), text[:80]
    return answer.reason


def nested(levels, opening="[", closing="]"):
    return b'{"a":' + opening.encode() * levels + b"1" + closing.encode() * levels + b"}"


class TestBase64url:
    @given(st.binary(max_size=100))
    def test_reads_back_what_was_encoded(self, raw):
        assert decode_base64url(base64.urlsafe_b64encode(raw).rstrip(b"=")) == raw

    @given(st.binary(max_size=12))
    def test_takes_exactly_the_texts_that_encoding_gives(self, text):
        """A text that decodes is the only text for those octets: no token has two spellings (pitfall 12)."""
        try:
            raw = decode_base64url(text)
        except Malformed:
            return
        assert base64.urlsafe_b64encode(raw).rstrip(b"=") == text

    @pytest.mark.parametrize("text", [b"A", b"AAAAA", b"AA==", b"AAA=", b"AA+A", b"AA/A", b"A A", b" AAAA", b"AAAA\n"])
    def test_refuses_padding_blanks_and_the_other_alphabet(self, text):
        with pytest.raises(Malformed):
            decode_base64url(text)

    @pytest.mark.parametrize("text", [b"AB", b"A_", b"AAB", b"AA_"])
    def test_refuses_unused_bits_that_are_not_zero(self, text):
        with pytest.raises(Malformed):
            decode_base64url(text)


class TestObject:
    @pytest.mark.parametrize(
        "raw",
        [
            b'{"iss":"good","iss":"evil"}',
            b'{"a":{"b":1,"b":2}}',
            b'{"a":[{"b":1,"\\u0062":2}]}',
        ],
        ids=["top", "inside", "by-escape"],
    )
    def test_refuses_a_repeated_member_at_any_level(self, raw):
        """Pitfall 20: two readers of one payload must not see two issuers."""
        with pytest.raises(Malformed):
            read_object(raw)

    @pytest.mark.parametrize(
        "number", [b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400", b"01", b"+1", b"1.", b".5", b"9" * 5000]
    )
    def test_refuses_numbers_that_are_no_json_or_no_number(self, number):
        with pytest.raises(Malformed):
            read_object(b'{"exp":' + number + b"}")

    @pytest.mark.parametrize(
        "raw",
        [
            b"",
            b"[]",
            b'"nbf exp"',
            b"1",
            b"null",
            b"{}x",
            b"{",
            b"\xef\xbb\xbf{}",
            b'{"a":"\xff"}',
            b"\x00",
            b"{'a':1}",
        ],
    )
    def test_refuses_what_is_not_one_object_of_utf8_json(self, raw):
        with pytest.raises(Malformed):
            read_object(raw)

    @pytest.mark.parametrize("text", [b'"\\ud800"', b'"\\udfff\\ud800"', b'["\\ud83d"]'])
    def test_refuses_a_lone_surrogate_which_could_never_be_written_again(self, text):
        with pytest.raises(Malformed):
            read_object(b'{"sub":' + text + b"}")

    def test_reads_a_pair_of_surrogates(self):
        assert read_object(b'{"sub":"\\ud83d\\ude00"}') == {"sub": "\U0001f600"}

    @pytest.mark.parametrize("opening", ["[", '{"b":'])
    def test_refuses_nesting_beyond_the_limit_and_takes_it_at_the_limit(self, opening):
        closing = "]" if opening == "[" else "}"

        assert read_object(nested(DEPTH_LIMIT - 1, opening, closing))
        with pytest.raises(Malformed):
            read_object(nested(DEPTH_LIMIT, opening, closing))

    def test_refuses_100000_brackets_without_running_out_of_stack(self):
        """Pitfall 15."""
        with pytest.raises(Malformed):
            read_object(nested(100_000))

    def test_many_brackets_beside_one_another_are_not_deep(self):
        assert read_object(b'{"a":[' + b"[]," * 500 + b'"[[[["]}')

    @given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.booleans() | st.none()))
    def test_reads_any_object_as_the_standard_library_does(self, members):
        raw = json.dumps(members).encode()
        try:
            assert read_object(raw) == members
        except Malformed:
            assert "\\ud" in raw.decode()


class TestCompact:
    def test_takes_a_token_apart(self):
        text = token(header={"typ": "application/AT+JWT"})
        compact = read_compact(text)

        assert isinstance(compact, Compact)
        assert (compact.algorithm, compact.kid, compact.type) == ("EdDSA", "ed", "at+jwt")
        assert compact.signed.decode() == text.rpartition(".")[0]
        assert json.loads(compact.payload)["sub"] == "user-1"
        assert len(compact.signature) == 64

    @pytest.mark.parametrize(
        "text",
        [
            "",
            ".",
            "..",
            "...",
            "a.b",
            "e30.e30",
            f"{encode({'alg': 'EdDSA'})}.e30.AA.AA",
            f"{encode({'alg': 'dir', 'enc': 'A128GCM'})}..AAAA.AAAA.AAAA",
            '{"payload":"e30","signatures":[]}',
            f"{encode({'alg': 'EdDSA'})}.e30.Ä",
            f"{encode({'alg': 'EdDSA'})}.e30=.AA",
            f"{encode({'alg': 'EdDSA'})}.e30.AA==",
            f"{encode({'alg': 'EdDSA'})} .e30.AA",
            f"{encode({'alg': 'EdDSA'})}.e30.AA\n",
        ],
    )
    def test_refuses_anything_but_three_parts_of_base64url(self, text):
        """J-06, pitfalls 11 to 13: 2, 4 and 5 parts, JSON serialisation, padding, blanks."""
        assert refusal(text) is Reason.TOKEN_MALFORMED

    @pytest.mark.parametrize(
        "header",
        [
            b"{}",
            b"[]",
            b'"alg"',
            b"",
            b'{"alg":null}',
            b'{"alg":5}',
            b'{"alg":["EdDSA"]}',
            b'{"alg":"EdDSA","alg":"none"}',
            b'{"alg":"EdDSA","kid":5}',
            b'{"alg":"EdDSA","kid":["ed"]}',
            b'{"alg":"EdDSA","kid":{}}',
            b'{"alg":"EdDSA","typ":null}',
            b'{"alg":"EdDSA","typ":""}',
            b'{"alg":"EdDSA","typ":1}',
        ],
    )
    def test_refuses_a_header_that_is_no_object_or_has_wrong_types(self, header):
        """J-06, and pitfall 6: kid is a string and nothing else."""
        assert refusal(sign(header, b"{}")) is Reason.TOKEN_MALFORMED

    @pytest.mark.parametrize(
        "kid", ["../../dev/null", "' OR 1=1 --", "https://evil.example/keys", "\x00", "k" * KID_LIMIT]
    )
    def test_a_kid_is_only_ever_text(self, kid):
        """Pitfall 6."""
        compact = read_compact(token(header={"kid": kid}))

        assert isinstance(compact, Compact)
        assert compact.kid == kid

    def test_refuses_a_kid_beyond_its_limit(self):
        assert refusal(token(header={"kid": "k" * (KID_LIMIT + 1)})) is Reason.TOKEN_MALFORMED

    def test_a_null_kid_is_an_absent_one(self):
        """J-05: some identity providers write kid as null."""
        compact = read_compact(token(header={"kid": None}))

        assert isinstance(compact, Compact)
        assert compact.kid is None

    @pytest.mark.parametrize(
        "extension",
        [
            {"crit": []},
            {"crit": ["x"]},
            {"crit": ["x"], "x": 1},
            {"crit": ["exp"]},
            {"crit": ["alg"]},
            {"crit": ["b64", "b64"], "b64": True},
            {"crit": "b64", "b64": False},
            {"crit": None},
            {"crit": ["b64"], "b64": False},
            {"b64": False},
            {"b64": True},
        ],
    )
    def test_refuses_every_critical_extension_and_every_b64(self, extension):
        """Pitfalls 9 and 10: none is implemented, so none can be understood (RFC 7515 section 4.1.11, RFC 7797)."""
        assert refusal(token(header=extension)) is Reason.TOKEN_CRITICAL

    @pytest.mark.parametrize("name", ["jwk", "jku", "x5u", "x5c"])
    def test_refuses_a_token_that_brings_its_own_key(self, name):
        """J-18, pitfall 4, RFC 8725 section 3.10."""
        assert refusal(token(header={name: "https://evil.example/"})) is Reason.TOKEN_KEY_EMBEDDED

    def test_refuses_a_token_beyond_the_limit_before_looking_into_it(self):
        """Pitfall 14: an 8 MB header."""
        assert refusal("e" * (TOKEN_LIMIT + 1)) is Reason.TOKEN_TOO_LARGE
        assert refusal(encode(b"[" * 8_000_000) + ".e30.AA") is Reason.TOKEN_TOO_LARGE

    def test_refuses_a_header_beyond_its_own_limit(self):
        header = b'{"alg":"EdDSA"' + b" " * HEADER_LIMIT + b"}"

        assert refusal(sign(header, b"{}")) is Reason.TOKEN_TOO_LARGE

    @given(st.text(max_size=200))
    def test_no_text_raises(self, text):
        assert isinstance(read_compact(text), Deny)

    @given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=60))
    def test_no_octets_in_the_parts_raise(self, header, payload, signature):
        assert isinstance(read_compact(f"{encode(header)}.{encode(payload)}.{encode(signature)}"), Deny)
