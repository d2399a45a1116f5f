"""The scalar values of the gateway document: numbers with units, rates, addresses, names.

Each parser takes the scalar as YAML gave it and raises `ValueError` with the words that follow "expected".
"""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from model.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from model.quota import Algorithm

_TIMES = {
    "ms": MILLISECOND,
    "s": SECOND,
    "sec": SECOND,
    "second": SECOND,
    "m": MINUTE,
    "min": MINUTE,
    "minute": MINUTE,
    "h": HOUR,
    "hour": HOUR,
    "d": DAY,
    "day": DAY,
}
LONGEST = 36_500 * DAY
"""A hundred years: more than a gateway runs, and less than what Envoy's durations hold."""
_SIZES = {"B": 1, "kB": 1000, "KiB": 1 << 10, "MB": 1000**2, "MiB": 1 << 20, "GiB": 1 << 30}
_UNIT = "|".join(sorted(_TIMES, key=len, reverse=True))
_DURATION = re.compile(rf"(\d{{1,12}}(?:\.\d{{1,6}})?)\s*({_UNIT})", re.ASCII)
_SIZE = re.compile(r"(\d{1,12})\s*(B|kB|KiB|MB|MiB|GiB)", re.ASCII)
_RATE = re.compile(
    rf"(?P<count>\d[\d_]{{0,11}})\s*/\s*(?P<every>\d{{1,6}})?\s*(?P<unit>{_UNIT})"
    rf"(?:,?\s+burst\s+(?:(?P<times>\d{{1,4}}(?:\.\d{{1,3}})?)x(?:\s+for\s+(?P<span>\d{{1,6}}\s*(?:{_UNIT})))?"
    r"|(?P<burst>\d{1,12})))?"
    r"(?P<sliding>,?\s+sliding)?",
    re.ASCII,
)
_PLACES = re.compile(rf"(?P<count>\d{{1,9}})\s+concurrent(?:\s+for\s+(?P<span>\d{{1,6}}\s*(?:{_UNIT})))?", re.ASCII)
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)
_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}", re.ASCII)
# One way alone to read each text: with an optional dot inside a repetition, a misprint took minutes to be refused.
_HOSTNAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}(?:\.[A-Za-z0-9_-]{1,63})*\.?", re.ASCII)

RATE_WORDS = "a rate such as 600/min, 600/min burst 2x for 10s, 100/s burst 1000, 60/min sliding or 5 concurrent"
DURATION_WORDS = "a duration with a unit, such as 2500ms, 10s, 5min or 24h"
SIZE_WORDS = "a size with a unit, such as 64KiB or 10MiB"
ADDRESS_WORDS = "an address such as 127.0.0.1:8443, [::1]:8443, name:50051 or unix:/run/wardgate.sock"


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate as written: `count` per `period` ns, `burst` requests at one instant (see `model.quota.Quota`)."""

    count: int
    period: int
    burst: int
    algorithm: Algorithm = Algorithm.BUCKET
    concurrent: bool = False


@dataclass(frozen=True, slots=True)
class Address:
    """A socket: `path` for a Unix socket (host is ""), else `host` and `port`; `numeric` where the host is an IP."""

    host: str
    port: int
    path: str = ""
    numeric: bool = True

    def __str__(self) -> str:
        """Write it as the document does."""
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_duration(value: object) -> int:
    """Read "2500ms" as nanoseconds; 0 only as "0s" or the like, never without a unit."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(DURATION_WORDS)
    duration = int(Fraction(match[1]) * _TIMES[match[2]])
    if duration > LONGEST:
        raise ValueError(f"a duration of at most {LONGEST // DAY}d")
    return duration


def parse_size(value: object) -> int:
    """Read "10MiB" as bytes."""
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(SIZE_WORDS)
    return int(match[1]) * _SIZES[match[2]]


def parse_rate(value: object) -> Rate:
    """Read a rate.

    `burst 2x for 10s` holds what twice the rate takes beyond the refill in 10 seconds; `burst 2x` holds twice the
    count; `burst 1000` holds 1000; without a burst the bucket holds the count. `sliding` counts in a sliding window.
    """
    if not isinstance(value, str):
        raise ValueError(RATE_WORDS)
    places = _PLACES.fullmatch(value)
    if places is not None:
        span = parse_duration(places["span"]) if places["span"] else MINUTE
        return _positive(Rate(int(places["count"]), span, int(places["count"]), concurrent=True))
    match = _RATE.fullmatch(value)
    if match is None:
        raise ValueError(RATE_WORDS)
    count, period = int(match["count"]), int(match["every"] or 1) * _TIMES[match["unit"]]
    if period == 0:
        raise ValueError("a rate over a period longer than 0")
    burst = _burst(match, count, period)
    return _positive(Rate(count, period, burst, Algorithm.WINDOW if match["sliding"] else Algorithm.BUCKET))


def _burst(match: re.Match[str], count: int, period: int) -> int:
    if match["burst"]:
        return int(match["burst"])
    if not match["times"]:
        return count
    times = Fraction(match["times"])
    if not match["span"]:
        return int(count * times)
    return int((times - 1) * count * parse_duration(match["span"]) / period)


def _positive(rate: Rate) -> Rate:
    if rate.count < 1:
        raise ValueError("a rate of at least 1 request")
    if rate.burst < 1:
        raise ValueError(f"a burst that holds at least 1 request (this one holds {max(rate.burst, 0)})")
    return rate


def parse_address(value: object) -> Address:
    """Read a socket address."""
    if isinstance(value, Address):
        return value
    if not isinstance(value, str):
        raise ValueError(ADDRESS_WORDS)
    if value.startswith("unix:"):
        path = value.removeprefix("unix:")
        if not path or "\0" in path:
            raise ValueError(ADDRESS_WORDS)
        return Address("", 0, path)
    host, _, port = value.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 <= int(port) <= 65535):
        raise ValueError(ADDRESS_WORDS)
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        if ":" in host or not _HOSTNAME.fullmatch(host) or len(host) > 253:
            raise ValueError(ADDRESS_WORDS) from None
        return Address(host, int(port), numeric=False)
    if (address.version == 6) != host.startswith("["):
        raise ValueError(ADDRESS_WORDS)
    if "%" in bare:
        raise ValueError(f"{ADDRESS_WORDS}, without a zone")
    return Address(str(address), int(port))


def parse_network(value: object) -> str:
    """Read a CIDR range or a single address as a CIDR range in canonical form."""
    try:
        return str(ipaddress.ip_network(str(value)))
    except ValueError:
        raise ValueError("a CIDR range such as 10.0.0.0/8, without host bits") from None


def matching(pattern: re.Pattern[str], words: str, *, lower: bool = False) -> Callable[[object], str]:
    """Make a parser of text that a pattern matches as a whole, in lower case where asked."""

    def parse(value: object) -> str:
        if not isinstance(value, str) or pattern.fullmatch(value) is None:
            raise ValueError(words)
        return value.lower() if lower else value

    return parse


def scalar(parse: Callable[[object], Any], words: str, **schema: object) -> tuple[BeforeValidator, WithJsonSchema]:
    """Make a pydantic type of a parser: its ValueError becomes the fault's "expected" words."""

    def validate(value: object) -> object:
        try:
            return parse(value)
        except ValueError as error:
            raise PydanticCustomError("expected", "{words}", {"words": str(error)}) from None

    return BeforeValidator(validate), WithJsonSchema({"type": "string", "description": words, **schema})


Duration = Annotated[int, *scalar(parse_duration, DURATION_WORDS, pattern=f"^{_DURATION.pattern}$")]
Size = Annotated[int, *scalar(parse_size, SIZE_WORDS, pattern=f"^{_SIZE.pattern}$")]
HIDING_WORDS = "where the secret is: env:NAME or file:PATH, never the secret itself"
Secret = Annotated[
    str, *scalar(matching(re.compile(r"env:[A-Za-z_]\w*|file:.+", re.ASCII), HIDING_WORDS), HIDING_WORDS)
]
Network = Annotated[str, *scalar(parse_network, "a CIDR range")]
Name = Annotated[
    str,
    *scalar(
        matching(_NAME, "a name of lower-case letters, digits, '.', '_' and '-', at most 63 characters"),
        "a name",
        pattern=f"^{_NAME.pattern}$",
    ),
]


def _differ(value: object) -> object:
    """Refuse names that mean the same field: the later one would silently win."""
    names = [str(name).lower() for name in value] if isinstance(value, dict) else []
    if len(names) != len(set(names)):
        words = "header fields whose names differ in more than upper and lower case"
        raise PydanticCustomError("expected", "{words}", {"words": words})
    return value


DISTINCT = BeforeValidator(_differ)
HeaderName = Annotated[
    str,
    *scalar(matching(_FIELD, "a header field name", lower=True), "a header field name", pattern=f"^{_FIELD.pattern}$"),
]
