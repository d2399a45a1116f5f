"""Opaque tokens, from the request to the verdict."""

import json

import pytest

from authz.denylist import Denylist, Entry, Subject
from authz.introspection import read_answer
from model.instant import MINUTE, SECOND
from model.reason import Reason
from model.snapshot import Access, Introspection, Kind
from model.verdict import Allow, Deny
from tests.authz.build import NOW, judge, plane, request, resident, route, snapshot
from tests.authz.proofs import ORIGIN, prove, thumbprint

SETTINGS = Introspection("vault", "https://vault.example/introspect", "gate", "env:X", audiences=("api",))
MEMBERS = {
    "active": True,
    "client_id": "client-1",
    "sub": "user-1",
    "scope": "accounts",
    "aud": "api",
    "exp": NOW // SECOND + 300,
    "jti": "o-1",
}


class Vault:
    """Endpoints that say of every token the same; `away` says nothing new, `known` is what is remembered."""

    def __init__(self, *, away=False, known=None, **members):
        self.away = away
        self.known = known
        self.questions = []
        self.said = {**MEMBERS, **members}

    def recall(self, endpoint_id, token, now):
        return self.known

    async def ask(self, endpoint_id, token, *, lenient):
        self.questions.append((endpoint_id, token, lenient))
        return Deny(Reason.IDENTITY_UNAVAILABLE) if self.away else self.read(NOW)

    def read(self, now):
        return read_answer(json.dumps(self.said).encode(), SETTINGS, now)


def house_of(vault, *, settings=SETTINGS, access=Access.WRITE, **changes):
    policy = snapshot(
        planes=(plane(credentials=(Kind.OPAQUE,), introspection="vault", origin=ORIGIN),),
        routes=(route(access=access),),
        introspections={"vault": settings},
    )
    return resident(policy, endpoints=vault, **changes)


def ask(vault, token="opaque-token", **changes):
    return judge(request(bearer=token), house_of(vault, **changes))


def test_active_token_stands_for_its_client():
    """The endpoint of the plane is asked, and what it says is the caller."""
    vault = Vault()

    caller = ask(vault).caller

    assert (caller.kind, caller.client_id, caller.subject, caller.tier) == ("opaque", "client-1", "user-1", "partner")
    assert vault.questions == [("vault", "opaque-token", False)]


def test_what_is_remembered_is_not_asked_again():
    """No wait for a token that was seen lately."""
    vault = Vault()
    vault.known = vault.read(NOW)

    assert isinstance(ask(vault), Allow)
    assert vault.questions == []


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"active": False}, Reason.TOKEN_INACTIVE),
        ({"exp": NOW // SECOND - 60}, Reason.TOKEN_EXPIRED),
        ({"aud": "other"}, Reason.TOKEN_AUDIENCE),
        ({"scope": "other"}, Reason.SCOPE_MISSING),
        ({"client_id": "stranger"}, Reason.CLIENT_UNKNOWN),
        ({"cnf": {"jkt": thumbprint()}}, Reason.PROOF_MISSING),
        ({"cnf": {"x5t#S256": "A" * 43}}, Reason.BINDING_MISMATCH),
        ({"cnf": {"kid": "k"}}, Reason.BINDING_UNSUPPORTED),
    ],
)
def test_answer_is_held_to_the_same_rules_as_a_token(members, reason):
    """Audience, times, scope, binding: an endpoint's word is no way round them (standards 2.5)."""
    assert ask(Vault(**members)).reason is reason


def test_opaque_token_bound_to_a_key_passes_with_its_proof():
    """RFC 9449 section 6.2: `cnf` of an introspection answer binds as that of a token does."""
    fields = {"authorization": "DPoP opaque-token", "dpop": prove("opaque-token")}

    house = house_of(Vault(cnf={"jkt": thumbprint()}))

    assert isinstance(judge(request(bearer=None, headers=fields), house), Allow)


def test_client_that_is_not_registered_gets_the_tier_of_the_endpoint():
    """As with issuers: an endpoint with a tier vouches for strangers."""
    settings = Introspection("vault", "https://vault.example", "gate", "env:X", audiences=("api",), tier="anonymous")

    assert ask(Vault(client_id="stranger"), settings=settings).caller.tier == "anonymous"


def test_silent_endpoint_is_no_verdict_about_the_token():
    """503, not 401: the client must not throw its token away."""
    assert ask(Vault(away=True)).reason is Reason.IDENTITY_UNAVAILABLE


def test_only_reads_ask_leniently():
    """DESIGN section 7: what was said before serves reads while the endpoint is away, never writes."""
    for access, lenient in ((Access.READ, True), (Access.WRITE, False)):
        vault = Vault()
        ask(vault, access=access)
        assert vault.questions[0][2] is lenient


def test_remembered_answer_is_judged_against_the_clock():
    """What is remembered does not outlive its token."""
    vault = Vault(exp=NOW // SECOND - 60)
    vault.known = vault.read(NOW - 2 * MINUTE)

    assert ask(vault).reason is Reason.TOKEN_EXPIRED


@pytest.mark.parametrize(
    "entry",
    [
        Entry(Subject.TOKEN, "o-1", "vault"),
        Entry(Subject.SUBJECT, "user-1", "vault"),
        Entry(Subject.CLIENT, "client-1"),
    ],
    ids=lambda entry: entry.subject.value,
)
def test_opaque_token_can_be_revoked_here_as_well(entry):
    """The denylist is asked whatever an endpoint, or the memory of one, says; its id stands for the issuer."""
    listed = Denylist()
    listed.add(entry)
    vault = Vault()
    vault.known = vault.read(NOW)

    assert ask(vault, denylist=listed).reason is Reason.CREDENTIAL_REVOKED


def test_plane_without_an_endpoint_takes_no_opaque_token():
    """There is nobody to ask."""
    house = resident(snapshot(planes=(plane(credentials=(Kind.OPAQUE,)),)))

    assert judge(request(bearer="opaque-token"), house).reason is Reason.CREDENTIAL_KIND_REFUSED
