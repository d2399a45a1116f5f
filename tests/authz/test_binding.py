"""Whether credential and connection belong together."""

import pytest

from model.reason import Reason
from model.snapshot import Kind, Requirement
from model.verdict import Allow
from tests.authz.build import (
    ORGANISATION,
    certificate,
    confirmation,
    consumer,
    judge,
    pki,
    plane,
    request,
    requirement,
    resident,
    root,
    route,
    snapshot,
    token,
)

JKT = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"


def test_token_bound_to_a_certificate_passes_with_it_alone():
    """RFC 8705 section 3: the certificate of this connection, no other, and never none."""
    peer = certificate()
    bearer = token(cnf=confirmation(peer))

    assert isinstance(judge(request(bearer=bearer, certificate=peer)), Allow)
    other = pki.encoded(pki.qwac(root(), common_name="other"))
    assert judge(request(bearer=bearer, certificate=other)).reason is Reason.BINDING_MISMATCH
    assert judge(request(bearer=bearer)).reason is Reason.BINDING_MISMATCH


def test_binding_is_checked_for_remembered_tokens_too():
    """A stolen token does not pass because its owner was here a moment ago."""
    house, peer = resident(), certificate()
    bearer = token(cnf=confirmation(peer))
    assert isinstance(judge(request(bearer=bearer, certificate=peer), house), Allow)

    assert judge(request(bearer=bearer), house).reason is Reason.BINDING_MISMATCH


def test_unbound_token_is_refused_where_the_route_demands_binding():
    """A route can ask for sender-constrained tokens only."""
    house = resident(snapshot(routes=(requirement(bound=True),)))
    peer = certificate()

    assert judge(request(certificate=peer), house).reason is Reason.TOKEN_UNBOUND
    assert isinstance(judge(request(bearer=token(cnf=confirmation(peer)), certificate=peer), house), Allow)


def test_certificate_needs_no_binding():
    """A certificate as the credential is bound to its connection by TLS itself."""
    house = resident(
        snapshot(
            planes=(plane(credentials=(Kind.CERTIFICATE,), certificate=pki.profile_of(root())),),
            routes=(requirement(bound=True),),
            consumers=(consumer(organisations=(ORGANISATION,)),),
        )
    )

    assert isinstance(judge(request(bearer=None, certificate=certificate()), house), Allow)


def test_token_bound_to_a_key_does_not_pass_as_a_bearer_token():
    """RFC 9449 section 7.1: no downgrade."""
    verdict = judge(request(bearer=token(cnf={"jkt": JKT})))

    assert verdict.reason is Reason.PROOF_MISSING
    assert verdict.challenges[0].startswith("DPoP ")


@pytest.mark.parametrize("proof", [{}, {"dpop": "no proof"}])
def test_token_bound_to_a_key_does_not_pass_without_a_proof_that_holds(proof):
    """The scheme alone proves nothing."""
    bearer = token(cnf={"jkt": JKT})

    verdict = judge(request(bearer=None, headers={"authorization": f"DPoP {bearer}", **proof}))

    assert verdict.reason in {Reason.PROOF_MISSING, Reason.PROOF_INVALID}


def test_unbound_token_does_not_pass_under_the_proof_scheme():
    """A DPoP scheme with a token that names no key is refused."""
    verdict = judge(request(bearer=None, headers={"authorization": f"DPoP {token()}", "dpop": "x"}))

    assert verdict.reason in {Reason.BINDING_MISMATCH, Reason.PROOF_INVALID}


def test_token_bound_to_certificate_and_key_needs_both():
    """The right certificate does not stand in for the proof."""
    peer = certificate()
    bearer = token(cnf={**confirmation(peer), "jkt": JKT})

    assert judge(request(bearer=bearer, certificate=peer)).reason is Reason.PROOF_MISSING
    assert judge(request(bearer=bearer)).reason is Reason.BINDING_MISMATCH


@pytest.mark.parametrize("cnf", [{"jwk": {}}, {"x5t#S512": "x"}, {"kid": "k"}])
def test_binding_that_cannot_be_checked_is_refused(cnf):
    """An unknown confirmation is not ignored."""
    assert judge(request(bearer=token(cnf=cnf))).reason is Reason.BINDING_UNSUPPORTED


def test_consumer_comes_with_a_certificate_of_its_own_organisation():
    """A partner's token is worth nothing with another partner's certificate, or with none."""
    house = resident(snapshot(consumers=(consumer(organisations=(ORGANISATION,)),)))
    foreign = certificate(organisations=("PSDDE-BAFIN-654321",))

    assert isinstance(judge(request(certificate=certificate()), house), Allow)
    assert judge(request(certificate=foreign), house).reason is Reason.CLIENT_MISMATCH
    assert judge(request(), house).reason is Reason.CLIENT_MISMATCH


def test_consumer_without_organisations_comes_with_any():
    """Nothing registered, nothing compared; and a plane without certificates cannot compare."""
    assert isinstance(judge(request(certificate=certificate())), Allow)
    bound = (consumer(organisations=(ORGANISATION,)),)
    house = resident(
        snapshot(planes=(plane(certificate=None),), routes=(route(requirement=Requirement()),), consumers=bound)
    )
    assert isinstance(judge(request(), house), Allow)
