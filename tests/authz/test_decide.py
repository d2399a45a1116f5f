"""The order of the checks and the loop that runs it."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz import decide as room
from authz.decide import STEPS, decide
from authz.denylist import Denylist, Entry, Subject
from authz.evidence import Spend
from authz.grant import grant_request
from model.instant import HOUR, SECOND
from model.quota import Outcome
from model.reason import Reason
from model.snapshot import Dimension, Kind, Limit, Requirement
from model.verdict import Allow, Deny
from tests.authz.build import (
    NOW,
    ORGANISATION,
    QUOTA,
    CountingLimiter,
    certificate,
    confirmation,
    consumer,
    evidence,
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

FLOOD = Limit(dataclasses.replace(QUOTA, name="flood"), (Dimension.ADDRESS,))


def test_order_is_that_of_the_design():
    """Each step stands where DESIGN section 4 has it, and only the last one grants."""
    assert [step.__name__ for step in STEPS] == [
        "shed_strangers",
        "limit_address",
        "find_route",
        "find_credential",
        "check_certificate",
        "check_application",
        "check_credential",
        "adopt_application",
        "shed_tier",
        "check_binding",
        "check_client",
        "check_revocation",
        "check_requirement",
        "spare_upstream",
        "spend_quotas",
        "grant_request",
    ]


def house_of(**faults):
    """A gateway whose every check has something to check; `faults` are what is broken in it."""
    listed = Denylist()
    if "revoked" in faults:
        listed.add(Entry(Subject.CLIENT, "client-1"))
    policy = snapshot(
        planes=(plane(certificate=pki.profile_of(root()), flood=FLOOD),),
        routes=(route(requirement=Requirement(scopes=("accounts",), psd2_roles=("PSP_AI",), bound=True)),),
        consumers=(consumer(organisations=(ORGANISATION,)),),
    )
    return resident(
        policy,
        denylist=listed,
        resting=frozenset({"account-ledger"} if "resting" in faults else ()),
        saturation=1.0 if "saturated" in faults else 0.0,
    )


# What can be wrong with a request, in the order in which it must be found out; each fault with its reason.
FAULTS = {
    "flooded": Reason.ADDRESS_FLOOD,
    "unrouted": Reason.ROUTE_UNKNOWN,
    "doubled": Reason.CREDENTIALS_AMBIGUOUS,
    "uncertified": Reason.CERTIFICATE_MISSING,
    "expired": Reason.TOKEN_EXPIRED,
    "saturated": Reason.OVERLOADED,
    "unbound": Reason.TOKEN_UNBOUND,
    "mismatched": Reason.CLIENT_MISMATCH,
    "revoked": Reason.CREDENTIAL_REVOKED,
    "unscoped": Reason.SCOPE_MISSING,
    "resting": Reason.UPSTREAM_BREAKER_OPEN,
    "exhausted": Reason.QUOTA_EXCEEDED,
}


class FaultyLimiter(CountingLimiter):
    def __init__(self, faults):
        super().__init__()
        self._faults = faults

    def admit(self, charges, now):
        flood = charges[0].quota.name == "flood"
        refused = ("flooded" if flood else "exhausted") in self._faults
        return [Outcome(not refused, 0 if refused else 5, SECOND if refused else 0, SECOND) for _ in charges]


def judge_faulty(faults):
    claims = {}
    if "expired" in faults:
        claims |= {"exp": NOW // SECOND - 100}
    if "unscoped" in faults:
        claims |= {"scope": "other"}
    peer = certificate(organisations=("PSDDE-BAFIN-999999",)) if "mismatched" in faults else certificate()
    bearer = token(**claims) if "unbound" in faults else bound_to(peer, **claims)
    asked = request(
        bearer=bearer,
        headers={"x-api-key": "k"} if "doubled" in faults else {},
        certificate="" if "uncertified" in faults else peer,
        route="nowhere" if "unrouted" in faults else "accounts",
    )
    return judge(asked, house_of(**dict.fromkeys(faults)), FaultyLimiter(faults))


def bound_to(peer, **claims):
    return token(cnf=confirmation(peer), **claims)


def test_request_without_fault_passes():
    """The request that the other tests break is a good one."""
    assert isinstance(judge_faulty(()), Allow)


@given(st.sets(st.sampled_from(sorted(FAULTS)), min_size=1))
def test_first_fault_in_the_order_is_the_answer(faults):
    """Whatever else is wrong, the refusal names what the first failing step found; never is anything allowed."""
    if "unrouted" in faults:
        faults -= {"flooded"}  # an unknown route belongs to no plane, and the flood limit is the plane's
    first = next(name for name in FAULTS if name in faults)

    assert judge_faulty(faults).reason is FAULTS[first]


@pytest.mark.parametrize("step", STEPS[:-1], ids=lambda step: step.__name__)
def test_refusal_of_any_step_ends_the_decision(monkeypatch, step):
    """No later step runs after a refusal, and nothing is granted."""
    ran = []

    def refuse(_):
        return Deny(Reason.INTERNAL)

    def grant(facts):
        ran.append("granted")
        return grant_request(facts)

    replaced = tuple(refuse if each is step else grant if each is grant_request else each for each in STEPS)
    monkeypatch.setattr(room, "ORDERS", dict.fromkeys((True, False), replaced))

    assert judge().reason is Reason.INTERNAL
    assert ran == []


def test_loop_that_runs_out_of_steps_allows_nothing(monkeypatch):
    """An order without its last step is a fault of ours, not an open door."""
    monkeypatch.setattr(room, "ORDERS", dict.fromkeys((True, False), STEPS[:-1]))

    with pytest.raises(AssertionError):
        judge()


def test_ask_is_yielded_and_its_reply_goes_on():
    """The generator asks once for the quotas and allows once they are granted."""
    decision = decide(evidence())
    ask = next(decision)
    assert isinstance(ask, Spend)

    with pytest.raises(StopIteration) as end:
        decision.send([Outcome(True, 5, 0, SECOND) for _ in ask.charges])

    assert isinstance(end.value.value, Allow)


def test_refusal_sent_as_reply_ends_the_decision():
    """What the outside cannot tell is a refusal, whatever the step would have made of it."""
    decision = decide(evidence())
    next(decision)

    with pytest.raises(StopIteration) as end:
        decision.send(Deny(Reason.LIMITER_UNAVAILABLE))

    assert end.value.value.reason is Reason.LIMITER_UNAVAILABLE


def test_refusal_says_who_was_recognised_and_how_to_come_back():
    """The log learns the caller, the client its challenge."""
    verdict = judge(request(bearer=token(scope="other")))

    assert verdict.caller.client_id == "client-1"
    assert verdict.challenges[0].startswith('Bearer realm="open-banking", error="insufficient_scope"')


def test_refusal_that_a_verifier_remembers_is_not_written_to():
    """Two callers with the same bad certificate do not see each other in the verdict."""
    house = resident(snapshot(planes=(plane(certificate=pki.profile_of(pki.authority("Other"))),)))
    first = judge(request(certificate=certificate()), house)
    second = judge(request(certificate=certificate(), headers={"x": "y"}), house)

    assert first.reason is second.reason is Reason.CERTIFICATE_UNTRUSTED
    assert first is not second
    assert first.caller is not second.caller


def test_refused_request_spends_no_quota():
    """401, 403 and 503 leave the caller's quota as it was: all of them come before the spend."""
    limiter = CountingLimiter()
    for bearer in (None, "a.b.c", token(scope="other"), token(exp=NOW // SECOND - 100)):
        judge(request(bearer=bearer), limiter=limiter)

    assert limiter.spends == []


REQUIRED = {
    "bearer": {"bearer": None},
    "route": {"route": None},
    "certificate": {"certificate": ""},
}


@pytest.mark.parametrize("missing", REQUIRED, ids=str)
def test_no_request_passes_without_a_fact_that_it_needs(missing):
    """Removing any required fact from a request that passes never lets it pass."""
    house = house_of()
    asked = {"bearer": bound_to(certificate()), "certificate": certificate()}
    assert isinstance(judge(request(**asked), house), Allow)

    assert isinstance(judge(request(**{**asked, **REQUIRED[missing]}), house), Deny)


@given(
    without=st.sets(
        st.sampled_from(["iss", "aud", "exp", "client_id", "sub", "iat", "jti", "scope", "cnf"]), min_size=1
    )
)
def test_no_token_passes_without_a_claim_that_it_needs(without):
    """Each of the claims that stand in an allowed token was needed, alone or together with others."""
    head = bound_to(certificate())
    assert isinstance(judge(request(bearer=head, certificate=certificate()), house_of()), Allow)
    claims = {} if "cnf" in without else {"cnf": confirmation(certificate())}
    bearer = token(without=tuple(without - {"cnf"}), **claims)

    assert isinstance(judge(request(bearer=bearer, certificate=certificate()), house_of()), Deny)


def test_anonymous_plane_lets_nobody_pass_as_somebody():
    """A bad token on a route that also takes none is refused, not treated as absent."""
    house = resident(
        snapshot(planes=(plane(credentials=(Kind.JWT, Kind.NONE)),), routes=(route(requirement=Requirement()),))
    )

    assert isinstance(judge(request(bearer=None), house), Allow)
    assert judge(request(bearer=token(exp=(NOW - HOUR) // SECOND)), house).reason is Reason.TOKEN_EXPIRED
