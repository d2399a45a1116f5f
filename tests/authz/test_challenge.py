"""The WWW-Authenticate fields of a refusal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.challenge import write_challenges
from model.reason import TABLE, Reason
from model.snapshot import Kind, Requirement
from tests.authz.build import plane, resident, route, snapshot


def plan(kinds=(Kind.JWT,), scopes=("accounts",), realm="open-banking"):
    house = resident(
        snapshot(
            planes=(plane(credentials=kinds, realm=realm),),
            routes=(route(requirement=Requirement(scopes=scopes)),),
        )
    )
    return house.plans["accounts"]


def test_missing_credential_names_the_realm_and_no_error():
    """RFC 6750 section 3.1: no error code where no credential was sent."""
    assert write_challenges(Reason.CREDENTIAL_MISSING, plan()) == ('Bearer realm="open-banking"',)


def test_bad_token_is_an_invalid_token():
    """RFC 6750 section 3.1, invalid_token with a description."""
    assert write_challenges(Reason.TOKEN_EXPIRED, plan()) == (
        'Bearer realm="open-banking", error="invalid_token", error_description="The token has expired."',
    )


def test_missing_scope_names_all_that_are_needed():
    """RFC 6750 section 3.1, insufficient_scope with the scope attribute, on a 403."""
    (challenge,) = write_challenges(Reason.SCOPE_MISSING, plan(scopes=("accounts", "payments")))

    assert 'error="insufficient_scope"' in challenge
    assert challenge.endswith('scope="accounts payments"')


def test_two_credentials_are_an_invalid_request():
    """RFC 6750 section 3.1, invalid_request on a 400."""
    (challenge,) = write_challenges(Reason.CREDENTIALS_AMBIGUOUS, plan())

    assert 'error="invalid_request"' in challenge


def test_unknown_key_and_bad_signature_cannot_be_told_apart():
    """RFC 8725: no oracle in errors."""
    first = write_challenges(Reason.TOKEN_KEY_UNKNOWN, plan())

    assert first == write_challenges(Reason.TOKEN_SIGNATURE, plan())


def test_every_accepted_scheme_has_a_challenge_of_its_own():
    """Several schemes stand in several header fields."""
    written = write_challenges(Reason.CREDENTIAL_MISSING, plan((Kind.JWT, Kind.OPAQUE, Kind.API_KEY)))

    assert written == ('Bearer realm="open-banking"', 'ApiKey realm="open-banking"')


def test_proof_is_asked_for_in_its_own_scheme():
    """RFC 9449 section 7.1: DPoP, with the algorithms."""
    (challenge,) = write_challenges(Reason.PROOF_MISSING, plan())

    assert challenge.startswith('DPoP realm="open-banking", error="invalid_dpop_proof"')
    assert challenge.endswith('algs="ES256 EdDSA"')


def test_what_was_wrong_with_a_token_is_said_in_the_scheme_it_came_in():
    """RFC 9449 section 7.1: a DPoP challenge answers a DPoP token, also where not the proof was wrong."""
    (challenge,) = write_challenges(Reason.BINDING_MISMATCH, plan(), "dpop")

    assert challenge.startswith('DPoP realm="open-banking", error="invalid_token"')
    assert challenge.endswith('algs="ES256 EdDSA"')


def test_route_for_bound_tokens_names_the_scheme_that_binds():
    """A client learns from the first 401 how to come."""
    house = resident(
        snapshot(
            planes=(plane(credentials=(Kind.JWT,), origin="https://api.example"),),
            routes=(route(requirement=Requirement(bound=True)),),
        )
    )

    written = write_challenges(Reason.CREDENTIAL_MISSING, house.plans["accounts"])

    assert written == ('Bearer realm="open-banking"', 'DPoP realm="open-banking", algs="ES256 EdDSA"')


@pytest.mark.parametrize("reason", [each for each in Reason if TABLE[each].status == 401])
@pytest.mark.parametrize("kinds", [(Kind.JWT,), (Kind.API_KEY,), (Kind.CERTIFICATE,), (Kind.OPAQUE, Kind.NONE)])
def test_every_401_carries_a_challenge(reason, kinds):
    """RFC 9110 section 15.5.2: a 401 must name one."""
    assert write_challenges(reason, plan(kinds))


@pytest.mark.parametrize("reason", [Reason.ROUTE_UNKNOWN, Reason.QUOTA_EXCEEDED, Reason.OVERLOADED, Reason.INTERNAL])
def test_refusal_for_which_no_credential_would_help_has_none(reason):
    """A better credential does not open a route that is not there."""
    assert write_challenges(reason, plan()) == ()


@given(st.text(max_size=40))
def test_realm_cannot_break_out_of_its_quotes(realm):
    """Whatever stands in the document, the field stays one line and its quotes stay paired."""
    (challenge,) = write_challenges(Reason.CREDENTIAL_MISSING, plan(realm=realm))

    assert challenge.startswith('Bearer realm="')
    assert challenge.count('"') == 2
    assert challenge.isascii()
    assert challenge.isprintable()
