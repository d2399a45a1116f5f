"""Whether credential and connection belong together."""

import pytest

from authz.proof import Replays
from model.instant import SECOND
from model.reason import Reason
from model.snapshot import Kind, Requirement
from model.verdict import Allow
from tests.authz.build import (
    NOW,
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
from tests.authz.proofs import ORIGIN, bound_token, prove

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


def proving_house(**changes):
    return resident(snapshot(planes=(plane(origin=ORIGIN),)), **changes)


def proven(bearer, *proofs, **changes):
    """A request with a token in the DPoP scheme and with these proofs, as header lines of their own."""
    fields = {"authorization": f"DPoP {bearer}"} | ({"dpop": ", ".join(proofs)} if proofs else {})
    return request(bearer=None, headers=fields, repeated=frozenset({"dpop"} if len(proofs) > 1 else ()), **changes)


def test_token_bound_to_a_key_passes_with_a_proof_of_that_key():
    """RFC 9449 section 7.1: the scheme DPoP, one proof, made for this request and this token."""
    bearer = bound_token()

    assert isinstance(judge(proven(bearer, prove(bearer)), proving_house()), Allow)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"htm": "POST"}, Reason.PROOF_INVALID),
        ({"htu": "https://other.example/v1/accounts"}, Reason.PROOF_INVALID),
        ({"ath": "x"}, Reason.PROOF_INVALID),
        ({"iat": NOW // SECOND - 61}, Reason.PROOF_INVALID),
        ({"jti": None}, Reason.PROOF_INVALID),
        ({"name": "another"}, Reason.BINDING_MISMATCH),
    ],
)
def test_proof_for_something_else_is_refused(changes, reason):
    """Another method, URI, token, time or key; each is answered in the scheme that was used."""
    bearer = bound_token()

    verdict = judge(proven(bearer, prove(bearer, **changes)), proving_house())

    assert verdict.reason is reason
    assert verdict.challenges[0].startswith("DPoP ")
    assert 'algs="ES256 EdDSA"' in verdict.challenges[0]


def test_origin_of_a_proof_is_that_of_the_document_and_not_the_host_header():
    """Pitfall 26: who can choose the Host cannot choose what a proof was made for."""
    bearer = bound_token()
    proof = prove(bearer, htu="https://evil.example/v1/accounts")

    assert judge(proven(bearer, proof, host="evil.example"), proving_house()).reason is Reason.PROOF_INVALID


def test_proof_is_good_for_one_request():
    """RFC 9449 section 11.1, and the refusal looks like that of any bad proof."""
    house, bearer = proving_house(), bound_token()
    proof = prove(bearer)
    assert isinstance(judge(proven(bearer, proof), house), Allow)

    assert judge(proven(bearer, proof), house).reason is Reason.PROOF_REPLAYED
    assert isinstance(judge(proven(bearer, prove(bearer)), house), Allow)


def test_proof_is_not_taken_where_its_replay_could_not_be_told():
    """A full memory refuses: it never lets a second use through."""
    bearer = bound_token()
    house = proving_house(proofs=Replays(capacity=1))
    assert isinstance(judge(proven(bearer, prove(bearer)), house), Allow)

    assert judge(proven(bearer, prove(bearer)), house).reason is Reason.OVERLOADED


def test_two_proofs_are_refused_however_they_arrive():
    """Exactly one DPoP field: not two lines, and not two that were joined on the way."""
    bearer = bound_token()
    two = (prove(bearer), prove(bearer))
    joined = request(bearer=None, headers={"authorization": f"DPoP {bearer}", "dpop": ",".join(two)})

    assert judge(proven(bearer, *two), proving_house()).reason is Reason.HEADER_REPEATED
    assert judge(joined, proving_house()).reason is Reason.PROOF_INVALID


def test_plane_without_an_origin_cannot_hold_a_proof_against_anything():
    """Then no proof is good, rather than every one."""
    bearer = bound_token()

    assert judge(proven(bearer, prove(bearer))).reason is Reason.BINDING_UNSUPPORTED


def test_bound_token_with_a_proof_does_not_pass_as_a_bearer_token():
    """The scheme says what is claimed; a proof beside the wrong one changes nothing."""
    bearer = bound_token()
    asked = request(bearer=bearer, headers={"dpop": prove(bearer)})

    assert judge(asked, proving_house()).reason is Reason.PROOF_MISSING


def test_missing_proof_is_asked_for():
    """The scheme alone proves nothing."""
    assert judge(proven(bound_token()), proving_house()).reason is Reason.PROOF_MISSING


def test_bound_token_meets_a_route_that_demands_binding():
    """A key is as good a binding as a certificate."""
    house = resident(snapshot(planes=(plane(origin=ORIGIN),), routes=(requirement(bound=True),)))
    bearer = bound_token()

    assert isinstance(judge(proven(bearer, prove(bearer)), house), Allow)
    assert judge(request(), house).reason is Reason.TOKEN_UNBOUND


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
