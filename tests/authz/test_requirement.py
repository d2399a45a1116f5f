"""What a route needs of a caller who is known."""

import pytest

from authz.requirement import claim_values
from model.reason import Reason
from model.verdict import Allow
from tests.authz.build import certificate, judge, request, requirement, resident, snapshot, token


def judged(asked=None, **needed):
    return judge(asked, resident(snapshot(routes=(requirement(**needed),))))


def test_all_scopes_are_needed_and_the_missing_ones_named():
    """One of two is not enough."""
    verdict = judged(scopes=("accounts", "consents"))

    assert verdict.reason is Reason.SCOPE_MISSING
    assert verdict.detail.endswith("needs: consents.")
    assert verdict.extensions == {"required_scopes": ["accounts", "consents"]}
    assert isinstance(judged(scopes=("accounts", "payments")), Allow)


def test_any_of_the_roles_is_enough():
    """Roles come from the token."""
    asked = request(bearer=token(roles=["auditor"]))

    assert isinstance(judged(asked, roles=("admin", "auditor")), Allow)
    assert judged(asked, roles=("admin",)).reason is Reason.ROLE_MISSING


def test_psd2_role_comes_from_the_certificate_and_nowhere_else():
    """A token that claims a role is no certificate."""
    claimed = request(bearer=token(roles=["PSP_AI"], psd2_roles=["PSP_AI"]))

    assert judged(claimed, psd2_roles=("PSP_AI",)).reason is Reason.PSD2_ROLE_MISSING
    assert isinstance(judged(request(certificate=certificate()), psd2_roles=("PSP_AI", "PSP_AS")), Allow)
    assert judged(request(certificate=certificate()), psd2_roles=("PSP_PI",)).reason is Reason.PSD2_ROLE_MISSING


def test_tier_is_compared():
    """A route can be for some tiers only."""
    assert isinstance(judged(tiers=("partner",)), Allow)
    assert judged(tiers=("internal",)).reason is Reason.TIER_REFUSED


@pytest.mark.parametrize(
    ("value", "passes"),
    [("level2", True), ("level3", True), ("level1", False), (["level1", "level2"], True), (2, False), ({}, False)],
)
def test_claim_must_hold_one_of_the_listed_values(value, passes):
    """A list holds each of its elements; what is no text, number or truth holds nothing."""
    verdict = judged(request(bearer=token(kyc=value)), claims=(("kyc", ("level2", "level3")),))

    assert isinstance(verdict, Allow) is passes
    assert passes or verdict.reason is Reason.CLAIM_REFUSED


def test_absent_claim_is_refused():
    """Nothing is assumed."""
    assert judged(claims=(("kyc", ("level2",)),)).reason is Reason.CLAIM_REFUSED


def test_claims_are_compared_as_texts():
    """True is "true", 2 is "2", and nothing is "None"."""
    assert claim_values(True) == {"true"}
    assert claim_values([1, "a", False, [2], None]) == {"1", "a", "false"}
    assert claim_values(None) == frozenset()


@pytest.mark.parametrize(
    ("address", "passes"),
    [
        ("192.0.2.7", True),
        ("::ffff:192.0.2.7", True),
        ("2001:db8::1", True),
        ("198.51.100.1", False),
        ("", False),
        ("/run/x.sock", False),
        ("192.0.2.7:443", False),
    ],
)
def test_address_must_lie_in_one_of_the_networks(address, passes):
    """Ranges of either family; a mapped address is the one that it maps; what is no address lies nowhere."""
    verdict = judged(request(address=address), networks=("192.0.2.0/24", "2001:db8::/32"))

    assert isinstance(verdict, Allow) is passes
    assert passes or verdict.reason is Reason.ADDRESS_REFUSED
