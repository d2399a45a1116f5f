"""A short run of the certificate fuzzer on every test run; `make fuzz` runs it long."""

from tests.fuzz.fuzz_certificate import run


def test_nothing_changed_escapes_or_is_allowed():
    assert run(count=3000, seed=1) == {"inputs": 3000, "escaped": 0, "wrongly_allowed": 0}
