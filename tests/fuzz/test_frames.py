"""A short run of the HTTP/2 fuzzer on every test run; `make fuzz` runs it long."""

from tests.fuzz.fuzz_frames import run


def test_no_changed_conversation_escapes_or_touches_that_of_another_peer():
    assert run(count=2000, seed=1) == {"inputs": 2000, "escaped": 0, "wrongly_allowed": 0}
