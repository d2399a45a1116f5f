"""Whom a request stands for."""

import json

import pytest

from authz import identify
from authz.apikey import hash_key
from authz.keytable import index_keys
from authz.resident import FixedKeys
from model.instant import SECOND
from model.reason import Reason
from model.snapshot import Access, Kind, Requirement
from model.verdict import Allow
from tests.authz import tokens
from tests.authz.build import (
    NOW,
    ORGANISATION,
    certificate,
    consumer,
    judge,
    pki,
    plane,
    request,
    resident,
    root,
    route,
    snapshot,
    token,
)

OPEN = route(requirement=Requirement())


def test_registered_client_is_in_its_own_tier_and_tenant():
    """The registration decides, whatever the token says of itself."""
    caller = judge(request(bearer=token(tier="internal", tenant="bank-9"))).caller

    assert (caller.kind, caller.client_id, caller.subject) == ("jwt", "client-1", "user-1")
    assert (caller.tier, caller.tenant) == ("partner", "bank-1")


def test_unregistered_client_is_refused_where_the_issuer_has_no_tier_for_strangers():
    """A token alone does not make a customer."""
    assert judge(request(bearer=token(client_id="stranger"))).reason is Reason.CLIENT_UNKNOWN


def test_unregistered_client_gets_the_tier_of_its_token_else_of_its_issuer():
    """An issuer with a tier vouches for its clients; a tier claim can say which one, if there is such a tier."""
    trusted = tokens.issuer(tier="anonymous", tier_claim="plan")
    house = resident(snapshot(issuer=trusted), keys=FixedKeys(tokens.trust(tier="anonymous", tier_claim="plan")))

    def tier(**claims):
        return judge(request(bearer=token(client_id="stranger", **claims)), house).caller.tier

    assert (tier(), tier(plan="internal"), tier(plan="no such tier")) == ("anonymous", "internal", "anonymous")


def test_anonymous_caller_is_in_the_tier_of_the_plane():
    """Without a credential, on a plane that takes none."""
    house = resident(snapshot(planes=(plane(credentials=(Kind.NONE,)),), routes=(OPEN,)))

    caller = judge(request(bearer=None), house).caller

    assert (caller.kind, caller.client_id, caller.tier) == ("none", "", "anonymous")


def certificate_house(**changes):
    profile = changes.pop("profile", "qwac-psd2")
    return resident(
        snapshot(
            planes=(plane(credentials=(Kind.CERTIFICATE,), certificate=pki.profile_of(root(), profile=profile)),),
            routes=(OPEN,),
            **changes,
        )
    )


def test_certificate_is_the_credential_of_the_consumer_with_its_organisation():
    """The client is known by the organizationIdentifier, which outlives every certificate."""
    house = certificate_house(consumers=(consumer(organisations=(ORGANISATION,)),))

    caller = judge(request(bearer=None, certificate=certificate()), house).caller

    assert (caller.kind, caller.client_id, caller.organisation) == ("certificate", "client-1", ORGANISATION)


def test_organisation_of_two_consumers_identifies_neither():
    """Ambiguity is refused, not resolved by order."""
    both = (consumer(organisations=(ORGANISATION,)), consumer(client_id="client-2", organisations=(ORGANISATION,)))

    verdict = judge(request(bearer=None, certificate=certificate()), certificate_house(consumers=both))

    assert verdict.reason is Reason.CLIENT_UNKNOWN


def test_plain_mtls_client_is_known_by_its_common_name():
    """A mesh certificate has no organizationIdentifier."""
    peer = certificate(common_name="client-1", organisations=())

    caller = judge(request(bearer=None, certificate=peer), certificate_house(profile="mtls")).caller

    assert caller.client_id == "client-1"


def key_house(**record):
    line = {"id": "k1", "sha256": hash_key("k1.secret"), "client_id": "client-1", "scopes": ["accounts"], **record}
    policy = snapshot(planes=(plane(credentials=(Kind.API_KEY,)),), routes=(route(stream=True),))
    return resident(policy, api_keys=index_keys([json.dumps(line).encode()]))


def test_api_key_stands_for_its_client_with_its_own_scopes():
    """The scopes are those of the key."""
    verdict = judge(request(bearer=None, headers={"x-api-key": "k1.secret"}), key_house())

    assert isinstance(verdict, Allow)
    assert (verdict.caller.kind, verdict.caller.client_id) == ("api-key", "client-1")


@pytest.mark.parametrize("text", ["k1.wrong", "k2.secret", "k1", "", "k1.secret.more"])
def test_wrong_api_key_is_refused_without_saying_what_was_wrong(text):
    """Unknown id and wrong secret are one answer."""
    verdict = judge(request(bearer=None, headers={"x-api-key": text}), key_house())

    assert verdict.reason is (Reason.API_KEY_UNKNOWN if text else Reason.CREDENTIAL_MISSING)


def test_key_of_an_unregistered_client_is_refused():
    """A key outlives its client by no request."""
    verdict = judge(request(bearer=None, headers={"x-api-key": "k1.secret"}), key_house(client_id="gone"))

    assert verdict.reason is Reason.CLIENT_UNKNOWN


def test_privileged_key_is_never_taken_from_the_query():
    """What ends in logs must not be worth much."""
    path = "/v1/accounts?api_key=k1.secret"

    assert isinstance(judge(request(bearer=None, path=path), key_house()), Allow)
    assert judge(request(bearer=None, path=path), key_house(privileged=True)).reason is Reason.CREDENTIAL_KIND_REFUSED


@pytest.mark.parametrize(
    ("kind", "headers"),
    [
        (Kind.JWT, {"authorization": f"Bearer {token()}"}),
        (Kind.API_KEY, {"x-api-key": "k1.secret"}),
        (Kind.CERTIFICATE, {}),
        (Kind.NONE, {}),
    ],
)
def test_kind_without_a_verifier_is_refused(monkeypatch, kind, headers):
    """What nothing can verify never passes."""
    monkeypatch.delitem(identify.IDENTIFIERS, kind)
    house = resident(snapshot(planes=(plane(credentials=(kind,)),), routes=(OPEN,)))

    assert judge(request(bearer=None, certificate=certificate(), headers=headers), house).reason is (
        Reason.CREDENTIAL_KIND_REFUSED
    )


def test_required_certificate_is_missed_and_a_presented_one_is_always_judged():
    """Asked for or not, a certificate that does not hold is a refusal."""
    required = resident(snapshot(planes=(plane(certificate=pki.profile_of(root())),)))
    foreign = pki.encoded(pki.qwac(pki.authority("Foreign Root")))

    assert judge(house=required).reason is Reason.CERTIFICATE_MISSING
    assert judge(request(certificate=foreign)).reason is Reason.CERTIFICATE_UNTRUSTED
    assert judge(request(certificate="no certificate")).reason is Reason.CERTIFICATE_MALFORMED
    assert isinstance(judge(request(certificate=certificate())), Allow)


def test_certificate_is_judged_against_the_clock_on_every_request():
    """A connection outlives its certificate (CVE-2022-21654)."""
    house = resident()
    peer = pki.encoded(pki.qwac(root(), end=pki.MOMENT + pki.DAY))
    later = NOW + 2 * 86_400 * SECOND
    house.live.keys = FixedKeys(tokens.trust(until=later + SECOND * 900))
    fresh = token(iat=later // SECOND - 5, exp=later // SECOND + 300)

    assert isinstance(judge(request(certificate=peer), house), Allow)
    assert judge(request(bearer=fresh, certificate=peer, received=later), house).reason is Reason.CERTIFICATE_EXPIRED


def test_verified_token_is_recalled_without_checking_its_signature_again(monkeypatch):
    """The second request with one token costs no verification."""
    house, calls = resident(), []
    real = identify.verify_token
    monkeypatch.setattr(identify, "verify_token", lambda *args: calls.append(1) or real(*args))
    bearer = token()

    for _ in range(3):
        assert isinstance(judge(request(bearer=bearer), house), Allow)
    assert len(calls) == 1
    assert judge(request(bearer=bearer[:-1] + ("A" if bearer[-1] != "A" else "B")), house).reason in {
        Reason.TOKEN_SIGNATURE,
        Reason.TOKEN_MALFORMED,
    }


def test_recalled_token_expires_like_any_other():
    """A token is remembered until its expiry, and then judged with the leeway that it would have had anyway."""
    house, bearer = resident(), token(exp=NOW // SECOND + 5)
    assert isinstance(judge(request(bearer=bearer), house), Allow)

    assert isinstance(judge(request(bearer=bearer, received=NOW + 14 * SECOND), house), Allow)
    assert judge(request(bearer=bearer, received=NOW + 15 * SECOND), house).reason is Reason.TOKEN_EXPIRED


def test_token_is_forgotten_with_its_key():
    """A key that its issuer takes back takes every token along, remembered or not."""
    house, bearer = resident(), token(key="ed")
    assert isinstance(judge(request(bearer=bearer), house), Allow)

    house.live.keys = FixedKeys(tokens.trust(tokens.jwk("ed-2", kid="ed")))

    assert judge(request(bearer=bearer), house).reason is Reason.TOKEN_SIGNATURE


def test_token_is_forgotten_with_its_issuer():
    """An issuer that is no longer trusted has no remembered tokens."""
    house, bearer = resident(), token()
    assert isinstance(judge(request(bearer=bearer), house), Allow)

    house.live.keys = FixedKeys()

    assert judge(request(bearer=bearer), house).reason is Reason.TOKEN_ISSUER


def test_token_of_an_issuer_is_accepted_on_the_planes_that_name_it():
    """A user of the public side is nobody on the management side; also once their token is remembered."""
    house = resident(
        snapshot(
            planes=(plane(), plane(id="console", issuers=("staff",)), plane(id="data", issuers=("idp", "staff"))),
            routes=tuple(route(id=id_, plane=id_) for id_ in ("partner", "console", "data")),
        )
    )
    for _ in range(2):
        verdicts = {id_: judge(request(route=id_), house) for id_ in ("console", "partner", "data")}
        assert verdicts.pop("console").reason is Reason.TOKEN_ISSUER
        assert all(isinstance(verdict, Allow) for verdict in verdicts.values())


def test_while_the_issuer_is_away_reads_pass_on_what_was_verified_and_writes_do_not():
    """DESIGN section 7: freshness is lost, availability of reads is not; nothing new is accepted."""
    routes = (route(access=Access.READ), route(id="payments", access=Access.WRITE))
    house, bearer = resident(snapshot(routes=routes)), token()
    assert isinstance(judge(request(bearer=bearer), house), Allow)

    house.live.keys = FixedKeys(tokens.trust(until=NOW))

    assert isinstance(judge(request(bearer=bearer), house), Allow)
    assert judge(request(bearer=bearer, route="payments"), house).reason is Reason.IDENTITY_UNAVAILABLE
    assert judge(request(bearer=token(jti="t-2")), house).reason is Reason.IDENTITY_UNAVAILABLE


class Refetching:
    """Key sets of which a new one arrives when it is asked for."""

    def __init__(self, before, after):
        self.trust = before
        self.after = after
        self.wanted = []

    async def want(self, issuer_id, kid):
        self.wanted.append((issuer_id, kid))
        changed, self.trust = self.trust is not self.after, self.after
        return changed


def test_unknown_key_is_asked_for_once_and_the_token_judged_again():
    """A key that was rotated in a moment ago does not refuse its first token."""
    after = tokens.trust(tokens.jwk("ed"), tokens.jwk("ed-2"))
    keys = Refetching(tokens.trust(tokens.jwk("ed")), after)
    house = resident(keys=keys)

    assert isinstance(judge(request(bearer=token(key="ed-2")), house), Allow)
    assert keys.wanted == [("idp", "ed-2")]


def test_key_that_stays_unknown_is_a_refusal_like_a_bad_signature():
    """Whether the set changed or not, an unknown key is refused, and nothing is asked twice."""
    only = tokens.trust(tokens.jwk("ed"))
    keys = Refetching(tokens.trust(tokens.jwk("rsa")), only)
    house = resident(keys=keys)

    assert judge(request(bearer=token(key="ed-2")), house).reason is Reason.TOKEN_KEY_UNKNOWN
    assert judge(request(bearer=token(key="ed-2")), house).reason is Reason.TOKEN_KEY_UNKNOWN
    assert len(keys.wanted) == 2
