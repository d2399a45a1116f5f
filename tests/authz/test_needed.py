"""Whatever kind of credential: a fact that an allowed request needed is never missing from an allowed one."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.apikey import hash_key
from authz.introspection import read_answer
from authz.keytable import index_keys
from authz.resident import FixedKeys
from model.snapshot import Assertion, Introspection, Kind, Requirement
from model.verdict import Allow, Deny
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
from tests.authz.proofs import ORIGIN, bound_token, prove
from tests.authz.test_assertion import assertion, trusted
from tests.authz.test_decide import confirmation

SETTINGS = Introspection("vault", "https://vault.example/introspect", "gate", "env:X", audiences=("api",))
SAID = {"active": True, "client_id": "client-1", "scope": "accounts", "aud": "api", "exp": NOW // 10**9 + 300}
CLAIMS = ("iss", "aud", "exp", "sub", "client_id", "iat", "jti", "scope")


class Vault:
    """An endpoint whose answer leaves out what the test leaves out."""

    def __init__(self, without):
        self.said = {name: value for name, value in SAID.items() if name not in without}

    def recall(self, endpoint_id, text, now):
        return read_answer(json.dumps(self.said).encode(), SETTINGS, now)


def house_of(kind, *, requirement=None, consumers=None, **live):
    policy = snapshot(
        planes=(
            plane(
                credentials=(kind,),
                origin=ORIGIN,
                introspection="vault",
                certificate=pki.profile_of(root(), required=False),
            ),
        ),
        routes=(route(requirement=requirement or Requirement(scopes=("accounts",))),),
        consumers=consumers or (consumer(assertion=Assertion("file:///k.json", ("EdDSA",), scopes=("accounts",))),),
        introspections={"vault": SETTINGS},
    )
    return resident(policy, **live)


def bearer_with(text, without):
    return request(bearer=None if "header" in without else text)


def by_token(without):
    return bearer_with(token(without=without), without), house_of(Kind.JWT)


def by_certificate_bound_token(without):
    peer = certificate()
    claims = {} if "cnf" in without else {"cnf": confirmation(peer)}
    asked = request(bearer=token(**claims), certificate="" if "certificate" in without else peer)
    return asked, house_of(Kind.JWT, requirement=Requirement(scopes=("accounts",), bound=True))


def by_key_bound_token(without):
    text = token() if "cnf" in without else bound_token()
    claims = dict.fromkeys(without & {"jti", "htm", "htu", "iat", "ath"})
    fields = {"authorization": f"{'Bearer' if 'scheme' in without else 'DPoP'} {text}"}
    if "proof" not in without:
        fields["dpop"] = prove(text, **claims)
    requirement = Requirement(scopes=("accounts",), bound=True)
    return request(bearer=None, headers=fields), house_of(Kind.JWT, requirement=requirement)


def by_api_key(without):
    line = {"id": "k1", "sha256": hash_key("k1.s"), "client_id": "client-1", "scopes": ["accounts"]}
    line["scopes"] = [] if "scopes" in without else line["scopes"]
    records = [] if "record" in without else [json.dumps(line).encode()]
    fields = {} if "header" in without else {"x-api-key": "k1" if "secret" in without else "k1.s"}
    return request(bearer=None, headers=fields), house_of(Kind.API_KEY, api_keys=index_keys(records))


def by_assertion(without):
    keys = {} if "key" in without else trusted("ed")
    consumers = (consumer(),) if "registration" in without else None
    house = house_of(Kind.ASSERTION, consumers=consumers, partners=FixedKeys(keys))
    return bearer_with(assertion(without=without), without), house


def by_opaque_token(without):
    return bearer_with("opaque", without), house_of(Kind.OPAQUE, endpoints=Vault(without))


def by_certificate(without):
    organisations = () if "organisation" in without else (ORGANISATION,)
    asked = request(bearer=None, certificate="" if "certificate" in without else certificate())
    house = house_of(
        Kind.CERTIFICATE,
        requirement=Requirement(psd2_roles=("PSP_AI",)),
        consumers=(consumer(organisations=organisations),),
    )
    return asked, house


def by_address(without):
    address = "" if "address" in without else "192.0.2.7"
    return request(bearer=None, address=address), house_of(
        Kind.NONE, requirement=Requirement(networks=("192.0.2.0/24",))
    )


NEEDED = {
    by_token: ("header", *CLAIMS),
    by_certificate_bound_token: ("cnf", "certificate"),
    by_key_bound_token: ("cnf", "scheme", "proof", "jti", "htm", "htu", "iat", "ath"),
    by_api_key: ("header", "secret", "record", "scopes"),
    by_assertion: ("header", "sub", "aud", "exp", "jti", "iss", "key", "registration"),
    by_opaque_token: ("header", "client_id", "scope", "aud"),
    by_certificate: ("certificate", "organisation"),
    by_address: ("address",),
}


@pytest.mark.parametrize("way", NEEDED, ids=lambda way: way.__name__)
def test_request_with_everything_passes(way):
    """Nothing is missing yet."""
    asked, house = way(frozenset())

    assert isinstance(judge(asked, house), Allow)


@settings(max_examples=30)
@given(data=st.data())
@pytest.mark.parametrize("way", NEEDED, ids=lambda way: way.__name__)
def test_request_without_something_it_needed_is_refused(way, data):
    """One fact, or any of them together."""
    without = data.draw(st.frozensets(st.sampled_from(NEEDED[way]), min_size=1))
    asked, house = way(without)

    assert isinstance(judge(asked, house), Deny)
