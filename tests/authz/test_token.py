"""Access tokens: which hold, which do not, and for which reason."""

import json
from itertools import pairwise

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc import jwt as joserfc_jwt
from joserfc.jwk import KeySet as JoserfcKeySet

from authz.token import Claims, UnknownKey, judge_times, verify_token
from model.instant import HOUR, MINUTE, SECOND
from model.reason import TABLE, Reason
from model.verdict import Deny
from tests.authz.tokens import (
    CLAIMS,
    KINDS,
    LIBRARY,
    NAME,
    NOW,
    NOW_S,
    encode,
    issuer,
    jwk,
    private_key,
    sign,
    token,
    trust,
)

THUMBPRINT = "A" * 43


def verify(text, now=NOW, **members):
    return verify_token(text, trust(**members), now)


def reason(text, now=NOW, **members):
    answer = verify(text, now, **members)
    assert isinstance(answer, Deny), answer
    return answer.reason


class TestAllowed:
    def test_a_good_token_tells_all_about_its_caller(self):
        claims = verify(
            token(roles=["teller"], org="bank-1", plan="gold", nbf=NOW_S - 5, cnf={"jkt": THUMBPRINT}),
            tenant_claim="org",
            tier_claim="plan",
        )

        assert isinstance(claims, Claims)
        assert (claims.issuer_id, claims.issuer, claims.subject, claims.client_id) == (
            "idp",
            NAME,
            "user-1",
            "client-1",
        )
        assert (claims.scopes, claims.roles) == ({"accounts", "payments"}, {"teller"})
        assert (claims.tenant, claims.tier, claims.jti, claims.kid) == ("bank-1", "gold", "t-1", "ed")
        assert (claims.issued, claims.not_before) == (NOW - 5 * SECOND, NOW - 5 * SECOND)
        assert (claims.expires, claims.type) == (NOW + 300 * SECOND, "at+jwt")
        assert claims.confirmation == {"jkt": THUMBPRINT}
        assert claims.members["aud"] == "api"
        assert claims.thumbprint in trust()[NAME].keys.thumbprints

    @pytest.mark.parametrize(
        ("key", "algorithm"),
        [
            ("ed", "EdDSA"),
            ("ed", "Ed25519"),
            ("p256", "ES256"),
            ("p384", "ES384"),
            ("p521", "ES512"),
            *(("rsa", name) for name in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
        ],
    )
    def test_every_algorithm_of_the_list_verifies(self, key, algorithm):
        assert isinstance(verify(token(key, algorithm)), Claims)

    @pytest.mark.parametrize("kind", ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", "jwt", "application/jwt", ...])
    def test_the_type_is_compared_as_a_media_type(self, kind):
        assert isinstance(verify(token(header={"typ": kind})), Claims)

    @pytest.mark.parametrize("scope", ["a b", ["a", "b"], " a  b ", ["b", "a", "a"]])
    def test_scopes_come_as_text_or_as_an_array(self, scope):
        assert verify(token(scope=scope)).scopes == {"a", "b"}

    def test_roles_may_stand_deeper_in_the_token(self):
        claims = verify(token(realm_access={"roles": ["teller"]}), roles_claim="realm_access.roles")
        named = verify(token(**{"https://id.example/roles": ["teller"]}), roles_claim="https://id.example/roles")

        assert claims.roles == named.roles == {"teller"}

    def test_a_header_member_that_nobody_knows_is_ignored(self):
        """RFC 7515 section 4: unknown members that are not critical must be ignored."""
        assert isinstance(verify(token(header={"x5t": "abc", "zip": "DEF", "x": {"y": [1]}})), Claims)


class TestKeys:
    def test_a_kid_that_no_key_has_asks_for_a_refetch(self):
        answer = verify(token(header={"kid": "k9"}))

        assert isinstance(answer, UnknownKey)
        assert (answer.reason, answer.issuer_id, answer.kid) == (Reason.TOKEN_KEY_UNKNOWN, "idp", "k9")

    def test_a_bad_signature_and_an_unknown_key_look_the_same_from_outside(self):
        """Pitfall 53, RFC 8725: no oracle in errors."""
        one, other = TABLE[Reason.TOKEN_SIGNATURE], TABLE[Reason.TOKEN_KEY_UNKNOWN]

        assert one == other

    @pytest.mark.parametrize("kid", [None, ...])
    @pytest.mark.parametrize("key", ["rsa", "rsa-2"])
    def test_a_null_kid_counts_as_none_and_every_fitting_key_is_tried(self, kid, key):
        """J-05: allowed with one usable key and with two; never an internal error."""
        text = token(key, header={"kid": kid})

        assert isinstance(verify_token(text, trust(jwk(key)), NOW), Claims)
        assert isinstance(verify_token(text, trust(jwk("rsa"), jwk("rsa-2"), jwk("ed")), NOW), Claims)

    def test_a_token_without_kid_tells_that_of_the_key_that_verified_it(self):
        """Whoever stole a key cannot slip past its denial by leaving its name out."""
        assert verify(token("rsa", header={"kid": ...})).kid == "rsa"

    def test_a_token_without_kid_that_no_key_verifies_asks_for_a_refetch(self):
        answer = verify_token(token("rsa-2", header={"kid": ...}), trust(jwk("rsa")), NOW)

        assert isinstance(answer, UnknownKey)
        assert (answer.reason, answer.kid) == (Reason.TOKEN_SIGNATURE, "")

    def test_a_kid_picks_its_key_and_no_other(self):
        assert reason(sign({"alg": "RS256", "kid": "rsa", "typ": "JWT"}, CLAIMS, "rsa-2")) is Reason.TOKEN_SIGNATURE

    def test_keys_without_alg_or_use_verify_and_keys_for_encryption_do_not(self):
        """J-15."""
        assert isinstance(verify_token(token("rsa"), trust(jwk("rsa", alg=None, use=None)), NOW), Claims)
        assert isinstance(verify_token(token("p256"), trust(jwk("p256", alg=None)), NOW), Claims)
        for members in ({"use": "enc"}, {"key_ops": ["encrypt"]}):
            answer = verify_token(token("rsa"), trust(jwk("rsa", **members), jwk("ed")), NOW)
            assert answer.reason is Reason.TOKEN_KEY_UNKNOWN

    def test_one_unusable_key_does_not_poison_the_set(self):
        """J-14."""
        others = [{"kty": "AKP"}, jwk("k256"), {"kty": "OKP", "crv": "Ed25519"}, {"kty": "RSA"}, {}, None, {"kty": 5}]

        assert isinstance(verify_token(token("rsa"), trust(jwk("rsa"), *others), NOW), Claims)

    def test_keys_that_were_never_loaded_or_are_too_old_make_the_identity_unavailable(self):
        loaded = trust(until=NOW)
        never = {NAME: type(loaded[NAME])(issuer(), None, NOW + HOUR)}

        assert verify_token(token(), loaded, NOW - 1).client_id == "client-1"
        assert verify_token(token(), loaded, NOW).reason is Reason.IDENTITY_UNAVAILABLE
        assert verify_token(token(), never, NOW).reason is Reason.IDENTITY_UNAVAILABLE
        assert verify_token("rubbish", never, NOW).reason is Reason.TOKEN_MALFORMED


class TestAlgorithms:
    @pytest.mark.parametrize(
        "name", ["none", "None", "NONE", "nOnE", "", "rs256", "RS256 ", "ES256K", "RS1", "HS256", "Ed448"]
    )
    def test_an_algorithm_outside_the_list_is_refused(self, name):
        """Pitfall 1, J-17: exact and case-sensitive, whatever the signature says."""
        for signature in ("", encode(b"x" * 64)):
            text = f"{encode({'alg': name, 'kid': 'ed'})}.{encode(CLAIMS)}.{signature}"
            assert reason(text) is Reason.TOKEN_ALGORITHM

    @pytest.mark.parametrize("format_", ["pem", "der", "jwk", "jwks", "empty", "blank"])
    def test_a_public_key_is_never_a_shared_secret(self, format_):
        """J-17, pitfall 2: an HS256 token MACed with what everybody can read of the issuer's key."""
        public = private_key("rsa").public_key()
        pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        secret = {
            "pem": pem,
            "der": public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
            "jwk": json.dumps(jwk("rsa")).encode(),
            "jwks": json.dumps({"keys": [jwk("rsa")]}).encode(),
            "empty": b"",
            "blank": b"\n " + pem,
        }[format_]
        signed = f"{encode({'alg': 'HS256', 'kid': 'rsa'})}.{encode(CLAIMS)}"
        text = f"{signed}.{encode(LIBRARY['HS256'].sign(signed.encode(), secret))}"

        assert reason(text) is Reason.TOKEN_ALGORITHM
        # Even where a document were to list it, no key has a verifier for it.
        assert reason(text, algorithms=("HS256", "RS256")) is Reason.TOKEN_ALGORITHM

    def test_an_algorithm_that_this_issuer_may_not_use_is_refused(self):
        assert reason(token("rsa"), algorithms=("PS256", "ES256")) is Reason.TOKEN_ALGORITHM

    @pytest.mark.parametrize(("named", "signed"), [("RS256", "RS512"), ("PS256", "RS256"), ("RS256", "PS256")])
    def test_the_header_cannot_name_another_algorithm_than_signed_with(self, named, signed):
        """Pitfall 3."""
        text = sign({"alg": named, "kid": "rsa", "typ": "JWT"}, CLAIMS, "rsa", signed)

        assert reason(text) is Reason.TOKEN_SIGNATURE

    @pytest.mark.parametrize("name", ["RS256", "EdDSA", "ES384"])
    def test_an_algorithm_that_does_not_fit_the_key_is_refused(self, name):
        assert reason(sign({"alg": name, "kid": "p256", "typ": "JWT"}, CLAIMS, "p256")) is Reason.TOKEN_ALGORITHM

    def test_the_alg_of_a_key_binds(self):
        answer = verify_token(token("rsa", "RS512"), trust(jwk("rsa", alg="RS256")), NOW)

        assert answer.reason is Reason.TOKEN_ALGORITHM


class TestType:
    @pytest.mark.parametrize(
        "kind", ["dpop+jwt", "token-introspection+jwt", "logout+jwt", "secevent+jwt", "JOSE", "a/jwt"]
    )
    def test_a_token_of_another_type_is_refused(self, kind):
        """Pitfall 24: what was signed for one purpose is not taken for another."""
        assert reason(token(header={"typ": kind})) is Reason.TOKEN_TYPE

    def test_an_issuer_can_demand_access_tokens_by_type(self):
        for kind in ("JWT", ...):
            assert reason(token(header={"typ": kind}), types=("at+jwt",)) is Reason.TOKEN_TYPE

    @pytest.mark.parametrize(
        "members",
        [
            {"nonce": "n"},
            {"at_hash": "h"},
            {"c_hash": "h"},
            {"typ": "ID"},
            {"typ": "Refresh"},
            {"token_use": "id"},
            {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}},
        ],
        ids=lambda members: next(iter(members)),
    )
    @pytest.mark.parametrize("kind", ["JWT", ...])
    def test_an_id_token_is_no_access_token(self, members, kind):
        """Pitfall 24, RFC 9068 section 2.1: told by the members that OpenID Connect gives it."""
        assert reason(token(header={"typ": kind}, **members)) is Reason.TOKEN_TYPE

    @pytest.mark.parametrize("name", ["exp", "aud", "sub", "client_id", "iat", "jti"])
    def test_an_access_token_by_rfc_9068_has_all_its_claims(self, name):
        assert reason(token(without=[name])) is Reason.TOKEN_CLAIM_MISSING
        assert reason(token(**{name: None})) is Reason.TOKEN_CLAIM_MALFORMED

    @pytest.mark.parametrize("name", ["sub", "client_id", "iat", "jti", "scope"])
    def test_a_plain_jwt_needs_only_what_its_issuer_demands(self, name):
        text = token(header={"typ": "JWT"}, without=[name])

        assert isinstance(verify(text), Claims)
        assert reason(text, required_claims=(name,)) is Reason.TOKEN_CLAIM_MISSING


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


class TestKeysInTheToken:
    def test_a_token_signed_by_the_key_that_it_brings_is_refused(self):
        """J-18, pitfall 4."""
        text = sign({"alg": "EdDSA", "jwk": jwk("ed-2"), "typ": "JWT"}, CLAIMS, "ed-2")

        assert reason(text) is Reason.TOKEN_KEY_EMBEDDED

    @pytest.mark.parametrize("name", ["jku", "x5u"])
    async def test_a_url_in_the_token_is_never_called(self, name, unused_listener):
        """J-18: the listening server sees no connection."""
        url, connections = unused_listener

        assert reason(token(header={name: url})) is Reason.TOKEN_KEY_EMBEDDED
        assert connections == []

    @pytest.fixture
    async def unused_listener(self):
        import asyncio

        connections = []
        server = await asyncio.start_server(lambda *streams: connections.append(streams), "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys", connections


class TestAgainstOtherLibraries:
    """The same tokens, judged by PyJWT and joserfc: they agree on every plain token and on every flipped one."""

    @pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # joserfc's view of RFC 9864; issuers still send it
    @pytest.mark.parametrize("key", ["rsa", "ed", "p256", "p384", "p521"])
    @pytest.mark.parametrize("flip", [None, 0, 1, 2])
    def test_agrees_with_pyjwt_and_joserfc(self, key, flip):
        parts = token(key).split(".")
        if flip is not None:
            middle = len(parts[flip]) // 2
            parts[flip] = (
                parts[flip][:middle] + ("A" if parts[flip][middle] != "A" else "B") + parts[flip][middle + 1 :]
            )
        text = ".".join(parts)

        ours = isinstance(verify(text), Claims)
        assert ours == _pyjwt_accepts(text, key) == _joserfc_accepts(text, key) == (flip is None)

    @pytest.mark.parametrize("key", ["rsa", "ed", "p256"])
    def test_verifies_what_other_libraries_sign(self, key):
        theirs = jwt.encode(CLAIMS, private_key(key), algorithm=KINDS[key], headers={"kid": key})

        assert isinstance(verify(theirs), Claims)


def _pyjwt_accepts(text, key):
    options = {"verify_exp": False, "verify_iat": False}
    try:
        jwt.decode(text, private_key(key).public_key(), [KINDS[key]], audience="api", issuer=NAME, options=options)
    except jwt.PyJWTError:
        return False
    return True


def _joserfc_accepts(text, key):
    from joserfc.errors import JoseError

    keys = JoserfcKeySet.import_key_set({"keys": [jwk(key)]})
    try:
        joserfc_jwt.decode(text, keys, algorithms=[KINDS[key]])
    except (JoseError, ValueError):
        return False
    return True


TOKENS = [token(key) for key in ("rsa", "ed", "p256")]
TRUST = trust()


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(TOKENS), st.data())
def test_no_changed_token_is_allowed_and_none_raises(text, data):
    """Any change of a token, be it one letter, a cut or a splice, is refused with a reason."""
    place = data.draw(st.integers(0, len(text) - 1))
    stop = data.draw(st.integers(place, min(len(text), place + 4)))
    changed = text[:place] + data.draw(st.text(max_size=4)) + text[stop:]

    answer = verify_token(changed, TRUST, NOW)
    assert changed == text or (isinstance(answer, Deny) and answer.reason in TABLE)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([*CLAIMS, "nbf", "cnf", "roles", "nonce"]), json_values)
def test_no_value_of_a_signed_claim_raises(name, value):
    """Even a token of the right issuer can hold anything: the answer is claims or a reason."""
    answer = verify_token(token(**{name: value}), TRUST, NOW)

    assert isinstance(answer, Claims | Deny)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["alg", "kid", "typ", "cty", "crit", "b64", "jwk", "x5t", "zip"]), json_values))
def test_no_value_in_a_signed_header_raises(members):
    answer = verify_token(token(header=members), TRUST, NOW)

    assert isinstance(answer, Claims | Deny)


def test_parts_of_good_tokens_do_not_make_another():
    for one, other in pairwise(TOKENS):
        parts = list(zip(one.split("."), other.split("."), strict=True))
        for choice in range(1, 7):
            mixed = ".".join(pair[choice >> place & 1] for place, pair in enumerate(parts))
            if mixed not in TOKENS:
                assert isinstance(verify_token(mixed, TRUST, NOW), Deny)
