"""Load shedding and resting upstreams."""

import pytest

from authz.resident import SHED_FROM
from model.reason import TABLE, Reason
from model.snapshot import Kind, Requirement
from model.verdict import Allow
from tests.authz.build import consumer, judge, plane, request, resident, route, snapshot, token


def house_at(saturation):
    policy = snapshot(
        planes=(plane(credentials=(Kind.JWT, Kind.NONE)),),
        routes=(route(requirement=Requirement()),),
        consumers=(consumer(), consumer(client_id="internal-1", tier="internal")),
    )
    return resident(policy, saturation=saturation)


CALLERS = {"anonymous": None, "internal": token(client_id="internal-1"), "partner": token()}


@pytest.mark.parametrize(
    ("saturation", "served"),
    [
        (0.0, {"anonymous", "internal", "partner"}),
        (SHED_FROM - 0.01, {"anonymous", "internal", "partner"}),
        (SHED_FROM, {"internal", "partner"}),
        (0.89, {"internal", "partner"}),
        (0.91, {"partner"}),
        (0.99, {"partner"}),
        (1.0, set()),
    ],
)
def test_lowest_rank_is_shed_first(saturation, served):
    """Anonymous first, internal second, partners last."""
    house = house_at(saturation)
    verdicts = {name: judge(request(bearer=bearer), house) for name, bearer in CALLERS.items()}

    assert {name for name, verdict in verdicts.items() if isinstance(verdict, Allow)} == served
    assert {verdict.reason for verdict in verdicts.values() if not isinstance(verdict, Allow)} <= {Reason.OVERLOADED}


def test_shed_request_is_told_to_come_back():
    """503 with Retry-After and a type of its own: overload is no denial (bug report M-05)."""
    row = TABLE[judge(request(bearer=None), house_at(0.9)).reason]

    assert (row.status, row.retry_after, row.fault) == (503, 1, "gateway")


def test_forged_token_gains_nothing_under_saturation():
    """It is verified and refused; a stranger cannot pass for a partner to be served."""
    assert judge(request(bearer=token(key="ed-2")), house_at(0.95)).reason is Reason.TOKEN_KEY_UNKNOWN


def test_resting_upstream_refuses_its_own_routes_only():
    """The breaker of one upstream is not that of another."""
    routes = (route(), route(id="payments", upstream="payment-initiation"))
    house = resident(snapshot(routes=routes), resting=frozenset({"account-ledger"}))

    assert judge(house=house).reason is Reason.UPSTREAM_BREAKER_OPEN
    assert isinstance(judge(request(route="payments"), house), Allow)


def test_key_in_the_query_is_not_nobody():
    """A stream client whose key stands in the query is judged by its key, not shed as a stranger."""
    policy = snapshot(planes=(plane(credentials=(Kind.API_KEY,)),), routes=(route(stream=True),))
    verdict = judge(request(bearer=None, path="/v1/events?api_key=k.s"), resident(policy, saturation=0.9))

    assert verdict.reason is Reason.API_KEY_UNKNOWN
