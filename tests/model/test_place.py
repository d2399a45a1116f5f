"""Places as text: what was written names the same places, and nothing else is taken for some."""

import pytest

from model.instant import SECOND
from model.place import read_places, write_places
from model.quota import Charge, Quota

STREAMS = Quota("streams", 3, 30 * SECOND, 3, concurrent=True)
TRIAL = Quota("trial", 1, SECOND, 1, enforced=False, concurrent=True)
RATE = Quota("rate", 600, SECOND, 600)


def test_what_was_written_names_the_same_places():
    held = (
        Charge(STREAMS, ("tier", "pro", "streams", "client", 'a"b:ü'), principal="t-1", holder="1800 id-1"),
        Charge(TRIAL, ("route", "trial", "route", "events"), holder="1800 id-1"),
    )
    assert read_places(write_places((*held, Charge(RATE, ("route", "rate"))))) == held


@pytest.mark.parametrize("text", ["", "no", "1", "[1]", "[[]]", '[["streams"]]', "{}x"])
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match=r".*"):
        read_places(text)
