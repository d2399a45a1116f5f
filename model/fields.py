"""The HTTP fields in which an answer describes its limits: one writer for authz and for the rate limit service.

Families, by the word that a gateway document uses:

- ``draft``: `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-11, structured fields (RFC 9651)
- ``remaining``: `X-RateLimit-Remaining` alone
- ``x-ratelimit``: `X-RateLimit-Limit`, `-Remaining`, `-Reset` as Envoy's DRAFT_VERSION_03 writes them
- ``ratelimit-legacy``: `RateLimit-Limit`, `-Remaining`, `-Reset` as envoyproxy/ratelimit writes them

The older families can speak of one limit only: the one that refused, otherwise the tightest. Trial quotas are never
shown to a client. Names are lower case, as HTTP/2 demands.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from urllib.parse import quote

from model.instant import SECOND, Duration, whole_seconds
from model.quota import Outcome, Quota

Limited = tuple[Quota, Outcome]
Fields = tuple[tuple[str, str], ...]

LARGEST_INTEGER = 999_999_999_999_999
"""A structured field Integer has at most 15 digits (RFC 9651 section 3.3.1)."""

# What `urllib.parse.quote` must leave alone: every printable ASCII character but the percent sign itself.
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


def limit_fields(limits: Sequence[Limited], families: Sequence[str]) -> Fields:
    """Write the fields of every family for the limits that one request met.

    `limits` are in the order in which they are to be listed; a family that is not known raises KeyError. Without an
    enforced limit there is nothing to say and the answer is empty.
    """
    shown = [limit for limit in limits if limit[0].enforced]
    if not shown:
        return ()
    fields: list[tuple[str, str]] = []
    for family in families:
        fields += FAMILIES[family](shown)
    return tuple(fields)


def find_tightest(limits: Sequence[Limited]) -> Limited:
    """Pick the limit that a caller has to mind: of those that refused the one that refuses longest.

    Where none refused, the one with the fewest requests left, and of equals the one that is whole again last. Raises
    ValueError for an empty sequence.
    """
    return limits[0] if len(limits) == 1 else min(limits, key=_tightness)


def wait_seconds(limits: Sequence[Limited]) -> int | None:
    """Say after how many whole seconds every limit that refused would accept; None where none refused.

    Rounded up and at least 1, as the delta-seconds of `Retry-After` (RFC 9110 section 10.2.3).
    """
    waits = [outcome.retry_after for quota, outcome in limits if quota.enforced and not outcome.allowed]
    return whole_seconds(max(waits)) if waits else None


@lru_cache(maxsize=4096)
def write_string(text: str) -> str:
    r"""Serialise a structured field String (RFC 9651 section 4.1.6).

    `"` and `\` are escaped. A String holds printable ASCII only: a text with anything else is percent-encoded as UTF-8
    first, so that no name can break the field or begin another one.
    """
    if not (text.isascii() and text.isprintable()):
        text = quote(text, safe=_PRINTABLE, errors="surrogatepass")
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _tightness(limit: Limited) -> tuple[bool, int, Duration]:
    outcome = limit[1]
    if outcome.allowed:
        return True, outcome.remaining, -outcome.reset
    return False, 0, -outcome.retry_after


def _write_integer(number: int) -> int:
    return number if 0 <= number <= LARGEST_INTEGER else min(max(number, 0), LARGEST_INTEGER)


def _effective_seconds(outcome: Outcome) -> int:
    """Whole seconds of the effective window, rounded up.

    `Retry-After` should not be earlier than the end of this window, so that of a refusal ends when the wait does.
    """
    return _write_integer(-(-(outcome.reset if outcome.allowed else max(outcome.retry_after, 1)) // SECOND))


@lru_cache(maxsize=4096)
def _write_policy(name: str, count: int, period: Duration, concurrent: bool) -> str:
    """Write one Item of `RateLimit-Policy`; `w` only where the period is a whole number of seconds."""
    item = f"{write_string(name)};q={_write_integer(count)}"
    if concurrent:
        return item + ';qu="concurrent-requests"'
    if period % SECOND or not 0 < period <= LARGEST_INTEGER * SECOND:
        return item
    return f"{item};w={period // SECOND}"


def _write_service(quota: Quota, outcome: Outcome) -> str:
    """Write one Item of `RateLimit`; a quota of places has no window, hence no `t`."""
    item = f"{write_string(quota.name)};r={_write_integer(outcome.remaining)}"
    return item if quota.concurrent else f"{item};t={_effective_seconds(outcome)}"


def _write_draft(limits: Sequence[Limited]) -> Fields:
    return (
        ("ratelimit-policy", ", ".join([_write_policy(q.name, q.count, q.period, q.concurrent) for q, _ in limits])),
        ("ratelimit", ", ".join([_write_service(quota, outcome) for quota, outcome in limits])),
    )


def _write_remaining(limits: Sequence[Limited]) -> Fields:
    return (("x-ratelimit-remaining", str(find_tightest(limits)[1].remaining)),)


def _write_envoy(limits: Sequence[Limited]) -> Fields:
    """Write Envoy's draft-03 form: the tightest limit first, then the policy of every limit with a window."""
    quota, outcome = find_tightest(limits)
    policies = [
        f"{other.count};w={other.period // SECOND};name={write_string(other.name)}"
        for other, _ in limits
        if other.period >= SECOND and not other.concurrent
    ]
    return (
        ("x-ratelimit-limit", ", ".join([str(quota.count), *policies])),
        ("x-ratelimit-remaining", str(outcome.remaining)),
        ("x-ratelimit-reset", str(_effective_seconds(outcome))),
    )


def _write_legacy(limits: Sequence[Limited]) -> Fields:
    quota, outcome = find_tightest(limits)
    return (
        ("ratelimit-limit", str(quota.count)),
        ("ratelimit-remaining", str(outcome.remaining)),
        ("ratelimit-reset", str(_effective_seconds(outcome))),
    )


FAMILIES: dict[str, Callable[[Sequence[Limited]], Fields]] = {
    "draft": _write_draft,
    "remaining": _write_remaining,
    "x-ratelimit": _write_envoy,
    "ratelimit-legacy": _write_legacy,
}
"""Every family by its name, so that a document can be checked against the keys."""
