"""A short run of the token fuzzer on every test run; `make fuzz` runs it long."""

from tests.fuzz.fuzz_token import run


def test_no_changed_token_or_key_set_escapes_or_is_allowed():
    assert run(count=3000, seed=1) == {"inputs": 3000, "escaped": 0, "wrongly_allowed": 0}
