"""Numbers carry units, and a rate says how much may come at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.instant import DAY, HOUR, MINUTE, SECOND
from model.quota import Algorithm
from policy.scalar import parse_address, parse_duration, parse_network, parse_rate, parse_size


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("2500ms", 2_500_000_000),
        ("10s", 10 * SECOND),
        ("1.5s", 1_500_000_000),
        ("5min", 5 * MINUTE),
        ("2h", 2 * HOUR),
        ("7d", 7 * DAY),
        ("0s", 0),
    ],
)
def test_duration_is_read_in_nanoseconds(text, nanoseconds):
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize("text", ["10", "-1s", "1 week", "", "s", "1s1s", 10, None, 1.5, "1e3s", "\u0661s", "1s\n"])
def test_duration_without_a_unit_or_below_zero_is_refused(text):
    with pytest.raises(ValueError, match="a duration with a unit"):
        parse_duration(text)


@pytest.mark.parametrize(("text", "size"), [("10MiB", 10 << 20), ("64KiB", 65536), ("1kB", 1000), ("512B", 512)])
def test_size_is_read_in_bytes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["10", "10mib", "-1B", "1.5MiB", 10])
def test_size_without_a_unit_is_refused(text):
    with pytest.raises(ValueError, match="a size with a unit"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "count", "period", "burst"),
    [
        ("600/min burst 2x for 10s", 600, MINUTE, 100),
        ("600/min, burst 2x for 10s", 600, MINUTE, 100),
        ("6_000/min burst 2x for 10s", 6000, MINUTE, 1000),
        ("60/min", 60, MINUTE, 60),
        ("10/min burst 2x", 10, MINUTE, 20),
        ("100/s burst 1000", 100, SECOND, 1000),
        ("5/10s", 5, 10 * SECOND, 5),
        ("1000/day burst 1.5x", 1000, DAY, 1500),
    ],
)
def test_rate_is_a_bucket_that_holds_its_burst(text, count, period, burst):
    """DESIGN section 5: twice the rate for 10 s takes 100 beyond what 600/min refills."""
    rate = parse_rate(text)

    assert (rate.count, rate.period, rate.burst) == (count, period, burst)
    assert rate.algorithm is Algorithm.BUCKET


def test_sliding_rate_and_places_are_counted_otherwise():
    assert parse_rate("60/min sliding").algorithm is Algorithm.WINDOW
    places = parse_rate("5 concurrent for 10min")
    assert (places.count, places.period, places.concurrent) == (5, 10 * MINUTE, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("600", "a rate such as"),
        ("600/fortnight", "a rate such as"),
        ("600/min burst", "a rate such as"),
        ("-1/min", "a rate such as"),
        ("0/min", "at least 1 request"),
        ("5/0s", "longer than 0"),
        ("3/min burst 2x for 10s", "holds at least 1"),
        ("600/min burst 1x for 10s", "holds at least 1"),
        ("600/min burst 0", "holds at least 1"),
        (600, "a rate such as"),
    ],
)
def test_rate_that_says_nothing_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        parse_rate(text)


@pytest.mark.parametrize(
    ("text", "host", "port", "numeric"),
    [
        ("127.0.0.1:8443", "127.0.0.1", 8443, True),
        ("[::1]:8443", "::1", 8443, True),
        ("account-ledger:50051", "account-ledger", 50051, False),
        ("a.b.example:1", "a.b.example", 1, False),
    ],
)
def test_address_is_host_and_port(text, host, port, numeric):
    address = parse_address(text)

    assert (address.host, address.port, address.numeric) == (host, port, numeric)
    assert str(address) == text


def test_unix_socket_is_an_address():
    assert parse_address("unix:/run/w.sock").path == "/run/w.sock"


@pytest.mark.parametrize(
    "text", ["8443", "::1:8443", "[127.0.0.1]:1", "a:b", "a:70000", ":1", "unix:", "a b:1", "http://a:1", "a:-1", 5]
)
def test_address_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="an address such as"):
        parse_address(text)


def test_network_has_no_host_bits():
    assert parse_network("10.0.0.0/8") == "10.0.0.0/8"
    assert parse_network("2001:db8::1") == "2001:db8::1/128"
    with pytest.raises(ValueError, match="without host bits"):
        parse_network("10.0.0.1/8")


@pytest.mark.parametrize("parse", [parse_duration, parse_size, parse_rate, parse_address, parse_network])
@given(value=st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.booleans(), st.binary()))
def test_scalar_is_read_or_refused_in_words(parse, value):
    try:
        words = str(parse(value))
    except ValueError as error:
        words = str(error)
    assert words


@pytest.mark.timeout(10)
def test_long_host_name_with_a_misprint_is_refused_at_once():
    with pytest.raises(ValueError, match="an address such as"):
        parse_address("account-ledger.internal.production.example/v1:8080")
