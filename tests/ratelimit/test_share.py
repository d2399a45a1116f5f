from model.instant import MINUTE, SECOND
from ratelimit.share import Share, reduce
from tests.ratelimit.build import START, bucket_of, charge_of, places_of, window_of


def test_the_parts_of_all_instances_make_no_more_than_the_whole():
    """D-07: 50 a second over eight instances, for ten seconds of outage."""
    charge = charge_of(bucket_of(50, SECOND))
    shares = [Share((1, 8)) for _ in range(8)]
    allowed = sum(
        share.take([charge], START + number * 1_000_000)[0].allowed for number in range(10_000) for share in shares
    )

    assert 50 * 10 * 0.98 <= allowed <= 50 + 50 * 10


def test_a_limit_smaller_than_the_number_of_instances_still_lets_something_pass():
    assert reduce(bucket_of(5, MINUTE, burst=2), (1, 8)).burst == 1
    assert reduce(window_of(3), (1, 8)).count == 1
    assert reduce(places_of(0), (1, 8)).count == 0


def test_a_share_begins_with_its_part_of_what_was_left():
    share = Share((1, 4))
    charge = charge_of(bucket_of(100, MINUTE))
    share.seed(charge, 41, 3, START)

    assert share.look([charge], START)[0].remaining == 7


def test_every_outcome_is_marked_as_degraded():
    share = Share()

    assert share.take([charge_of(bucket_of(1))], START)[0].degraded
    assert share.look([charge_of(bucket_of(1))], START)[0].degraded


def test_the_deficits_of_all_parts_make_the_deficit_of_the_whole():
    charge = charge_of(bucket_of(10, MINUTE))
    shares = [Share((1, 3)) for _ in range(3)]

    assert sum(share.deficit(charge, START) for share in shares) <= 3
    for share in shares:
        share.take([charge_of(charge.quota, cost=3)], START)
    assert sum(share.deficit(charge, START) for share in shares) >= 10


def test_a_refund_frees_a_place_of_the_part():
    share = Share()
    charges = [charge_of(places_of(1), holder=name) for name in "ab"]
    share.take(charges[:1], START)
    share.refund(charges[:1], START)

    assert share.take(charges[1:], START)[0].allowed
