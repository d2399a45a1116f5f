"""Access tokens against other libraries, and against changes of every kind."""

import time
from itertools import pairwise

import jwt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc import jwt as joserfc_jwt
from joserfc.jwk import KeySet as JoserfcKeySet

from authz.token import Claims, verify_token
from model.instant import SECOND
from model.reason import TABLE
from model.verdict import Deny
from tests.authz.tokens import (
    CLAIMS,
    KINDS,
    NAME,
    NOW,
    jwk,
    private_key,
    token,
    trust,
    verify,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
# PyJWT reads the clock itself: the wider leeway that it gets covers the time that the tests take.
CLOCK = int(time.time())
RSA_KEY = private_key("rsa").public_key()
TRUST = trust()


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

    @settings(max_examples=300, deadline=None)
    @given(st.sampled_from(["aud", "exp", "nbf", "iat", "iss", "sub", "jti"]), st.data())
    def test_is_never_laxer_than_pyjwt(self, name, data):
        """Whatever stands in a claim: a token that holds here holds for PyJWT under the same leeway."""
        value = data.draw(
            json_values | st.sampled_from(["api", ["api", "x"]]) | st.integers(-20, 20).map(lambda n: CLOCK + n)
        )
        text = token("rsa", **{"exp": CLOCK + 300, "iat": CLOCK, name: value})
        if isinstance(verify_token(text, TRUST, CLOCK * SECOND), Claims):
            jwt.decode(text, RSA_KEY, ["RS256"], audience="api", issuer=NAME, leeway=150)

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


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(TOKENS), st.data())
def test_no_changed_token_is_allowed_and_none_raises(text, data):
    """Any change of a token, be it one letter, a cut or a splice, is refused with a reason."""
    place = data.draw(st.integers(0, len(text) - 1))
    stop = data.draw(st.integers(place, min(len(text), place + 4)))
    changed = text[:place] + data.draw(st.text(max_size=4)) + text[stop:]

    answer = verify_token(changed, TRUST, NOW)
    assert changed == text or (isinstance(answer, Deny) and answer.reason in TABLE)


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
