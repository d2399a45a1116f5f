"""What a decision reads, parsed once."""

import pytest

from authz.resident import SHED_FROM, Resident, _shed_points
from model.snapshot import Tier
from tests.authz import tokens
from tests.authz.build import consumer, live, pki, plane, requirement, resident, route, snapshot


def test_snapshot_with_an_anchor_that_is_none_is_refused():
    """The fault shows when the snapshot is taken up, not when the first request comes."""
    broken = plane(certificate=pki.CertificateProfile(profile="mtls", anchors=("no certificate",)))

    with pytest.raises(ValueError, match="anchor 1"):
        Resident(snapshot(planes=(broken,)), live())


@pytest.mark.parametrize(
    "fault",
    [
        {"routes": (route(plane="nowhere"),)},
        {"routes": (requirement(networks=("no network",)),)},
        {"consumers": (consumer(tier="nowhere"),)},
        {"issuer": tokens.issuer(tier="nowhere")},
    ],
)
def test_snapshot_that_contradicts_itself_is_refused(fault):
    """A route without a plane, a range that is none, a tier that there is not."""
    with pytest.raises((KeyError, ValueError)):
        Resident(snapshot(**fault), live())


def test_organisation_finds_its_consumer_unless_two_share_it():
    """Nobody is identified by what two have."""
    house = resident(
        snapshot(
            consumers=(
                consumer(client_id="a", organisations=("o-1", "o-2")),
                consumer(client_id="b", organisations=("o-2", "o-3")),
            )
        )
    )

    assert {name: each.client_id for name, each in house.organisations.items()} == {"o-1": "a", "o-3": "b"}


@pytest.mark.parametrize(
    ("ranks", "points"),
    [
        ({}, {"": SHED_FROM}),
        ({"only": 7}, {"": SHED_FROM, "only": SHED_FROM}),
        ({"low": 0, "high": 9}, {"": SHED_FROM, "low": SHED_FROM, "high": 1.0}),
        ({"a": 0, "b": 5, "c": 5, "d": 6}, {"": SHED_FROM, "a": SHED_FROM, "b": 0.9, "c": 0.9, "d": 1.0}),
    ],
)
def test_ranks_are_shed_in_equal_steps(ranks, points):
    """From the first point to full saturation, one step a rank, equals together."""
    tiers = {name: Tier(name, rank=rank) for name, rank in ranks.items()}

    assert _shed_points(tiers) == pytest.approx(points)
