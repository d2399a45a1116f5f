"""Assertions that partners sign themselves, from the request to the verdict."""

import itertools

import pytest

from authz.assertion import partner_issuers
from authz.keyset import read_keys
from authz.proof import Replays
from authz.resident import FixedKeys
from authz.token import Trusted
from model.instant import DAY
from model.reason import Reason
from model.snapshot import Assertion, Kind, Requirement
from model.verdict import Allow
from tests.authz.build import NOW, consumer, judge, plane, request, resident, route, snapshot, token
from tests.authz.proofs import ORIGIN
from tests.authz.tokens import NOW_S, jwk, key_set, sign

_numbers = itertools.count()


def policy(kinds=(Kind.ASSERTION,), requirement=None):
    return snapshot(
        planes=(plane(credentials=kinds, origin=ORIGIN),),
        routes=(route(requirement=requirement or Requirement(scopes=("accounts",))),),
        consumers=(
            consumer(assertion=Assertion("file:///keys.json", ("EdDSA", "ES256"), scopes=("accounts",))),
            consumer(client_id="client-2"),
        ),
    )


class Rotating(FixedKeys):
    """Key sets that change once somebody wants them to."""

    async def want(self, issuer_id, kid):
        self.trust["client-1"] = trusted("ed", "ed-2")["client-1"]
        return True


def trusted(*names):
    (issuer,) = partner_issuers(policy())
    return {"client-1": Trusted(issuer, read_keys(key_set(*map(jwk, names))), NOW + DAY)}


def house_of(keys=None, **changes):
    options = {name: changes.pop(name) for name in ("kinds", "requirement") if name in changes}
    return resident(policy(**options), partners=keys or FixedKeys(trusted("ed")), **changes)


def assertion(key="ed", without=(), **claims):
    """A good assertion of client-1, with a `jti` of its own."""
    body = {
        "iss": "client-1",
        "sub": "client-1",
        "aud": ORIGIN,
        "iat": NOW_S,
        "exp": NOW_S + 60,
        "jti": f"a-{next(_numbers)}",
    } | claims
    body = {name: value for name, value in body.items() if name not in without}
    return sign({"alg": "EdDSA", "kid": key, "typ": "JWT"}, body, key)


def ask(bearer, house=None):
    return judge(request(bearer=bearer), house or house_of())


def test_assertion_stands_for_the_partner_that_signed_it():
    """With the scopes of its registration."""
    caller = ask(assertion()).caller

    assert (caller.kind, caller.client_id, caller.tier, caller.tenant) == ("assertion", "client-1", "partner", "bank-1")


def test_assertion_is_good_for_one_request():
    """RFC 7523 section 3, point 7: `jti` against replay; the next assertion is another one."""
    house, once = house_of(), assertion()
    assert isinstance(ask(once, house), Allow)

    assert ask(once, house).reason is Reason.TOKEN_REPLAYED
    assert isinstance(ask(assertion(), house), Allow)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"sub": "client-2"}, Reason.TOKEN_ISSUER),
        ({"iss": "client-2", "sub": "client-2"}, Reason.TOKEN_ISSUER),
        ({"aud": "https://other.example"}, Reason.TOKEN_AUDIENCE),
        ({"aud": ["https://other.example"]}, Reason.TOKEN_AUDIENCE),
        ({"exp": NOW_S - 60}, Reason.TOKEN_EXPIRED),
        ({"exp": NOW_S + 301}, Reason.TOKEN_LIFETIME),
        ({"iat": NOW_S + 60}, Reason.TOKEN_NOT_YET_VALID),
        ({"jti": "x" * 129}, Reason.TOKEN_CLAIM_MALFORMED),
        ({"jti": ""}, Reason.TOKEN_CLAIM_MALFORMED),
        ({"cnf": {"jkt": "A" * 43}}, Reason.PROOF_MISSING),
    ],
)
def test_assertion_about_something_else_is_refused(claims, reason):
    """Another partner, another gateway, another time, or one that could not be told from its repetition."""
    assert ask(assertion(**claims)).reason is reason


@pytest.mark.parametrize("name", ["sub", "aud", "exp", "jti"])
def test_every_claim_of_an_assertion_is_needed(name):
    """None of them has a default."""
    assert ask(assertion(without=(name,))).reason is Reason.TOKEN_CLAIM_MISSING


def test_partner_cannot_grant_itself_anything():
    """Scopes, roles and claims of an assertion are its signer's own words."""
    grown = house_of(requirement=Requirement(scopes=("accounts", "payments")))
    assert ask(assertion(scope="accounts payments"), grown).reason is Reason.SCOPE_MISSING
    by_role = house_of(requirement=Requirement(roles=("admin",)))
    assert ask(assertion(roles=["admin"]), by_role).reason is Reason.ROLE_MISSING
    by_claim = house_of(requirement=Requirement(claims=(("kyc", ("full",)),)))
    assert ask(assertion(kyc="full"), by_claim).reason is Reason.CLAIM_REFUSED


def test_assertion_by_a_key_that_is_not_the_partners_is_refused():
    """One that nobody knows, and one under a known name."""
    assert ask(assertion("ed-2")).reason is Reason.TOKEN_KEY_UNKNOWN
    forged = sign(
        {"alg": "EdDSA", "kid": "ed"}, {"iss": "client-1", "sub": "client-1", "aud": ORIGIN, "jti": "j"}, "ed-2"
    )
    assert ask(forged).reason is Reason.TOKEN_SIGNATURE


def test_new_key_of_a_partner_is_fetched_once():
    """A partner rotates its keys without telling anybody."""
    assert isinstance(ask(assertion("ed-2"), house_of(Rotating(trusted("ed")))), Allow)


def test_assertion_is_refused_where_its_repetition_could_not_be_told():
    """A full memory lets nothing through."""
    house = house_of(assertions=Replays(capacity=1))
    assert isinstance(ask(assertion(), house), Allow)

    assert ask(assertion(), house).reason is Reason.OVERLOADED


def test_tokens_and_assertions_on_one_plane_are_told_apart_by_their_keys():
    """Both are JWTs; an issuer's key never vouches for a partner nor the other way round."""
    house = house_of(kinds=(Kind.JWT, Kind.ASSERTION))

    assert ask(token(), house).caller.kind == "jwt"
    assert ask(assertion(), house).caller.kind == "assertion"
    assert ask(assertion("ed-2"), house).reason is Reason.TOKEN_KEY_UNKNOWN


def test_plane_for_tokens_takes_no_assertion():
    """A partner's own word counts only where the document says so."""
    assert ask(assertion(), house_of(kinds=(Kind.JWT,))).reason is Reason.TOKEN_ISSUER
    assert ask(token()).reason is Reason.TOKEN_ISSUER
