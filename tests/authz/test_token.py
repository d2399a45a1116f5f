"""Access tokens: their shape, keys, algorithms and types."""

import json

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from authz.token import Claims, UnknownKey, verify_token
from model.instant import HOUR, SECOND
from model.reason import TABLE, Reason
from tests.authz.tokens import (
    CLAIMS,
    LIBRARY,
    NAME,
    NOW,
    NOW_S,
    encode,
    issuer,
    jwk,
    private_key,
    reason,
    sign,
    token,
    trust,
    verify,
)

THUMBPRINT = "A" * 43


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


class TestShape:
    @pytest.mark.parametrize(
        "payload", [b'"nbf exp"', b"[]", b"", b"null", b"5", b"{", b"\xff", b"[" * 9000, b'{"a":' * 1800]
    )
    def test_a_payload_that_is_no_object_is_malformed(self, payload):
        """J-06, pitfall 15: refused with a reason, whatever the signature says."""
        assert reason(sign({"alg": "EdDSA", "kid": "ed"}, payload)) is Reason.TOKEN_MALFORMED

    @pytest.mark.parametrize("payload", [b'{"iss":"%s","iss":"x"}', b'{"iss":"x","iss":"%s"}'])
    def test_a_payload_with_two_issuers_is_malformed(self, payload):
        """Pitfall 20."""
        assert reason(sign({"alg": "EdDSA", "kid": "ed"}, payload % NAME.encode())) is Reason.TOKEN_MALFORMED

    def test_a_signature_that_is_missing_is_a_signature_that_does_not_hold(self):
        """Pitfall 11."""
        head, body, _ = token().split(".")

        assert reason(f"{head}.{body}.") is Reason.TOKEN_SIGNATURE


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
