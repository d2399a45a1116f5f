"""The bounded memory of recent results."""

from hypothesis import given
from hypothesis import strategies as st

from authz.recent import Recent


def test_what_was_put_is_found():
    """A value is found under its key and nothing is found under another."""
    recent = Recent(8)
    recent.put("a", 1)

    assert (recent.get("a"), recent.get("b")) == (1, None)


def test_what_is_asked_for_outlives_what_is_not():
    """An entry that is used stays however many others come by; one that is not used goes."""
    recent = Recent(8)
    recent.put("kept", 0)
    recent.put("left", 0)
    for number in range(100):
        recent.put(number, number)
        assert recent.get("kept") == 0

    assert recent.get("left") is None


def test_dropped_entry_is_gone_from_both_generations():
    """An entry that is dropped does not come back from the older generation."""
    recent = Recent(4)
    for number in range(3):
        recent.put(number, number)
    recent.drop(0)
    recent.drop(2)

    assert [recent.get(number) for number in range(3)] == [None, 1, None]


@given(st.lists(st.integers(0, 50)), st.integers(2, 20))
def test_it_never_holds_more_than_its_capacity(keys, capacity):
    """Whatever is put and asked for, the capacity is not exceeded and no value is found under a wrong key."""
    recent = Recent(capacity)
    for key in keys:
        assert recent.get(key) in (None, key)
        recent.put(key, key)
        assert len(recent) <= capacity
