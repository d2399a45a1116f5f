"""Access tokens whose signature holds: issuer, audience, times, names and bindings."""

import json

import pytest

from authz.token import Claims, judge_times, verify_token
from model.instant import MINUTE, SECOND
from model.reason import Reason
from tests.authz.tokens import (
    CLAIMS,
    NAME,
    NOW,
    NOW_S,
    encode,
    issuer,
    jwk,
    reason,
    sign,
    token,
    trust,
    verify,
)

THUMBPRINT = "A" * 43


class TestIssuerAndAudience:
    @pytest.mark.parametrize("name", [NAME + "/", NAME[:-1], NAME.upper(), "", [NAME], {NAME: 1}, None, 5, True, ...])
    def test_the_issuer_is_one_exact_string(self, name):
        """Pitfall 21: no prefix, no array, no null."""
        text = token(without=["iss"]) if name is ... else token(iss=name)

        assert reason(text) is Reason.TOKEN_ISSUER

    @pytest.mark.parametrize("audience", ["api", ["api"], ["other", "api"]])
    def test_an_audience_may_be_one_or_several(self, audience):
        """J-19."""
        assert isinstance(verify(token(aud=audience)), Claims)

    @pytest.mark.parametrize("audience", [[], "API", "api2", "ap", ["other"], "", [["api"]], "api other"])
    def test_an_audience_is_compared_exactly(self, audience):
        """J-19, pitfall 22."""
        assert reason(token(aud=audience)) in {Reason.TOKEN_AUDIENCE, Reason.TOKEN_CLAIM_MALFORMED}

    @pytest.mark.parametrize("audience", [5, [None], ["api", 5], {"api": 1}, True, None])
    def test_an_audience_of_another_type_is_malformed(self, audience):
        """J-19."""
        assert reason(token(aud=audience)) is Reason.TOKEN_CLAIM_MALFORMED

    def test_a_token_without_audience_is_refused(self):
        """J-19."""
        assert reason(token(header={"typ": "JWT"}, without=["aud"])) is Reason.TOKEN_CLAIM_MISSING

    def test_the_keys_of_one_issuer_do_not_verify_the_tokens_of_another(self):
        other = trust(jwk("p256", kid="ed"), id="b", issuer="https://b.example")

        assert verify_token(token(iss="https://b.example"), {**trust(), **other}, NOW).reason is Reason.TOKEN_ALGORITHM


class TestTimes:
    @pytest.mark.parametrize("exp", [NOW_S + 300.25, float(NOW_S + 300), b"2.0e9"])
    def test_fractions_of_a_second_are_read(self, exp):
        """J-01: RFC 7519 section 2 lets a NumericDate have a fraction."""
        body = json.dumps({**CLAIMS, "exp": 0, "iat": NOW_S - 1.5, "nbf": NOW_S - 1.5}).encode()
        text = exp if isinstance(exp, bytes) else str(exp).encode()
        claims = verify(sign({"alg": "EdDSA", "kid": "ed"}, body.replace(b'"exp": 0', b'"exp": ' + text)))

        assert isinstance(claims, Claims)
        assert isinstance(claims.expires, int)
        assert claims.expires == int(float(text) * SECOND)

    def test_a_fraction_in_the_past_is_expired(self):
        """J-01."""
        assert reason(token(exp=NOW_S - 5.5), leeway=5 * SECOND) is Reason.TOKEN_EXPIRED

    @pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
    @pytest.mark.parametrize(
        "value",
        [[1], [], {}, None, True, False, "123", str(NOW_S), -1, -0.5, 2**63, 10**400, 253_402_300_800, NOW_S * 1000],
        ids=lambda value: str(value)[:20],
    )
    def test_a_time_of_a_wrong_type_or_range_is_malformed(self, name, value):
        """J-03, pitfall 23: refused with a reason of its own and never an exception."""
        assert reason(token(**{name: value})) is Reason.TOKEN_CLAIM_MALFORMED

    @pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"-Infinity", b"1e400"])
    def test_a_time_that_is_no_number_of_json_is_malformed(self, value):
        """Pitfall 23."""
        body = json.dumps({**CLAIMS, "exp": 0}).encode().replace(b'"exp": 0', b'"exp": ' + value)

        assert reason(sign({"alg": "EdDSA", "kid": "ed"}, body)) is Reason.TOKEN_MALFORMED

    def test_one_leeway_holds_for_all_three(self):
        """J-21: a clock that is 3 seconds off is no reason to refuse; one that is an hour off is."""
        assert isinstance(verify(token(iat=NOW_S + 3, nbf=NOW_S + 3)), Claims)
        assert isinstance(verify(token(exp=NOW_S - 3)), Claims)
        assert reason(token(iat=NOW_S + 3600)) is Reason.TOKEN_NOT_YET_VALID
        assert reason(token(nbf=NOW_S + 3600)) is Reason.TOKEN_NOT_YET_VALID

    def test_the_leeway_ends_to_the_nanosecond(self):
        late, early = token(exp=NOW_S), token(nbf=NOW_S, iat=NOW_S)
        leeway = 10 * SECOND

        assert isinstance(verify(late, NOW + leeway - 1), Claims)
        assert reason(late, NOW + leeway) is Reason.TOKEN_EXPIRED
        assert isinstance(verify(early, NOW - leeway), Claims)
        assert reason(early, NOW - leeway - 1) is Reason.TOKEN_NOT_YET_VALID

    def test_a_token_that_lives_longer_than_its_issuer_may_grant_is_refused(self):
        assert isinstance(verify(token(exp=NOW_S + 295), max_lifetime=5 * MINUTE), Claims)
        assert reason(token(exp=NOW_S + 296), max_lifetime=5 * MINUTE) is Reason.TOKEN_LIFETIME

    def test_without_an_issue_time_the_lifetime_counts_from_now(self):
        short = token(header={"typ": "JWT"}, without=["iat"], exp=NOW_S + 300)

        assert isinstance(verify(short, max_lifetime=5 * MINUTE), Claims)
        assert reason(short, NOW - 1, max_lifetime=5 * MINUTE) is Reason.TOKEN_LIFETIME

    def test_a_held_token_is_judged_against_the_clock_again(self):
        claims = verify(token())

        assert judge_times(claims, issuer(), NOW + 309 * SECOND) is None
        assert judge_times(claims, issuer(), NOW + 310 * SECOND).reason is Reason.TOKEN_EXPIRED

    @pytest.mark.parametrize("claims", [{"exp": NOW_S - 3600}, {"aud": "other"}, {"nbf": NOW_S + 3600}, {"exp": "x"}])
    def test_no_claim_is_judged_before_the_signature(self, claims):
        """A forger does not learn which claims would have passed."""
        head, body, _ = token(**claims).split(".")

        assert reason(f"{head}.{body}.{encode(b'x' * 64)}") is Reason.TOKEN_SIGNATURE


class TestOtherClaims:
    @pytest.mark.parametrize("name", ["sub", "client_id", "jti"])
    @pytest.mark.parametrize("value", [5, ["a"], {}, True, "a\x00b", "a\r\nX-Role: admin", "a\x85"])
    def test_a_name_is_text_without_control_characters(self, name, value):
        """These become cache keys, header values and log fields (pitfalls 29 and 48)."""
        assert reason(token(**{name: value})) is Reason.TOKEN_CLAIM_MALFORMED

    @pytest.mark.parametrize("value", [5, {"a": 1}, True, ["a", 5], ["a", None], [["a"]], "a\nb"])
    def test_scopes_of_another_type_are_malformed(self, value):
        assert reason(token(scope=value)) is Reason.TOKEN_CLAIM_MALFORMED

    @pytest.mark.parametrize(
        "cnf", [{"jkt": THUMBPRINT}, {"x5t#S256": THUMBPRINT}, {"jkt": THUMBPRINT, "x5t#S256": THUMBPRINT}]
    )
    def test_a_binding_is_kept(self, cnf):
        """RFC 8705 section 3.1, RFC 9449 section 6.1."""
        assert verify(token(cnf=cnf)).confirmation == cnf

    @pytest.mark.parametrize("cnf", [{"jwk": {}}, {"kid": "x"}, {"x5t#S512": "x"}, {"jkt": THUMBPRINT, "x": 1}])
    def test_a_binding_that_cannot_be_checked_is_refused(self, cnf):
        """Pitfall 25: an unknown confirmation must not turn a bound token into a bearer token."""
        assert reason(token(cnf=cnf)) is Reason.BINDING_UNSUPPORTED

    @pytest.mark.parametrize(
        "cnf",
        [{}, None, [], "x", {"jkt": None}, {"jkt": 5}, {"jkt": "A" * 42}, {"jkt": "A" * 44}, {"jkt": "A" * 42 + "="}],
    )
    def test_a_malformed_binding_is_refused(self, cnf):
        assert reason(token(cnf=cnf)) is Reason.TOKEN_CLAIM_MALFORMED
