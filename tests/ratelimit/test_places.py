from model.instant import MINUTE, SECOND
from ratelimit import places
from tests.ratelimit.build import START, places_of


def test_a_place_is_held_until_it_is_given_back():
    quota = places_of(1)
    held, first = places.spend(None, quota, "a", START)
    _, second = places.spend(held, quota, "b", START)
    _, third = places.spend(places.refund(held, "a"), quota, "b", START)

    assert [first.allowed, second.allowed, third.allowed] == [True, False, True]


def test_the_place_of_a_dead_holder_falls_free_after_one_period():
    quota = places_of(1)
    held, _ = places.spend(None, quota, "a", START)
    _, outcome = places.spend(held, quota, "b", START + SECOND)

    assert outcome.retry_after == MINUTE - SECOND
    assert places.spend(held, quota, "b", START + MINUTE)[1].allowed


def test_a_renewed_place_takes_no_second_one_and_lasts_longer():
    quota = places_of(2)
    held, _ = places.spend(None, quota, "a", START)
    held, renewed = places.spend(held, quota, "a", START + SECOND)

    assert (renewed.allowed, renewed.remaining) == (True, 1)
    assert places.peek(held, quota, START + MINUTE).remaining == 1


def test_a_renewal_is_allowed_although_all_places_are_taken():
    quota = places_of(1)
    held, _ = places.spend(None, quota, "a", START)

    assert places.spend(held, quota, "a", START + SECOND)[1].allowed
