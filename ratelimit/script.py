"""The Redis side in text: one Lua script, the keys of the counters, and the numbers that go in and come out.

A key is `prefix:{tag}kind:digest`. The tag is a digest of the principal, so that one principal's counters live on one
shard of a Redis Cluster; the digest covers every part of the counter's name with its length before it, so that no two
names meet, whatever characters they hold. Both are keyed hashes: no credential and no client id stands in Redis.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib.resources import files

from model.instant import MICROSECOND, Instant
from model.quota import Algorithm, Charge, Outcome, Quota
from ratelimit.store import Draw, Drawn

SOURCE = "\n".join(
    files("ratelimit").joinpath(name).read_text(encoding="utf-8")
    for name in ("bucket.lua", "window.lua", "places.lua", "spend.lua")
)

# Above these a double is no longer exact in the script. A cost above every burst is refused all the same.
MOST = 2**40
LONGEST = 2**51


@dataclass(frozen=True, slots=True)
class Group:
    """What one call asks of counters that live on one shard: `verb` is spend, look, refund or draw."""

    verb: str
    items: tuple[Charge, ...] | tuple[Draw, ...]


class Naming:
    """The keys of counters. `secret` keys the hash; without one it is keyed by the prefix alone."""

    def __init__(self, prefix: str, secret: str = "") -> None:
        self.prefix = prefix
        self._key = blake2b(f"{prefix}\0{secret}".encode(), digest_size=32).digest()

    def tag(self, principal: str) -> str:
        """Hash tag of a principal."""
        return blake2b(principal.encode("utf-8", "surrogatepass"), digest_size=8, key=self._key).hexdigest()

    def name(self, charge: Charge) -> str:
        """Redis key of the counter of a charge."""
        quota = charge.quota
        digest = blake2b(digest_size=16, key=self._key)
        for part in (quota.name, "enforced" if quota.enforced else "trial", *charge.key):
            raw = part.encode("utf-8", "surrogatepass")
            digest.update(len(raw).to_bytes(8))
            digest.update(raw)
        return f"{self.prefix}:{{{self.tag(charge.principal)}}}{_kind(quota)}:{digest.hexdigest()}"


def encode(groups: Sequence[Group], naming: Naming, now: Instant | None) -> tuple[list[str], list[str]]:
    """Write KEYS and ARGV of one call. `now` None lets the server read its own clock."""
    keys: list[str] = []
    arguments = ["" if now is None else str(now // MICROSECOND)]
    for group in groups:
        arguments.append(f"{group.verb} {len(group.items)}")
        for item in group.items:
            if isinstance(item, Draw):
                keys.append(naming.name(item.charge))
                arguments.append(_draw_fields(item))
            else:
                keys.append(naming.name(item))
                arguments.append(_charge_fields(item))
                if item.quota.concurrent:
                    arguments.append(item.holder)
    return keys, arguments


def decode(groups: Sequence[Group], answer: bytes) -> list[list[Outcome] | list[Drawn]]:
    """Read the answer: what came of each group, in order."""
    reply = [int(number) for number in answer.split()]
    at = reply[0] * MICROSECOND
    position = 1
    answers: list[list[Outcome] | list[Drawn]] = []
    for group in groups:
        size = len(group.items)
        if group.verb == "draw":
            answers.append([_drawn(reply[place : place + 3], at) for place in range(position, position + 3 * size, 3)])
            position += 3 * size
        elif group.verb == "refund":
            answers.append([])
        else:
            answers.append([_outcome(reply[place : place + 4]) for place in range(position, position + 4 * size, 4)])
            position += 4 * size
    return answers


def _kind(quota: Quota) -> str:
    if quota.concurrent:
        return "p"
    return "b" if quota.algorithm is Algorithm.BUCKET else "w"


def _numbers(quota: Quota) -> tuple[int, int, int]:
    """Count, period in microseconds (rounded up: never more than the quota says) and burst."""
    period = min(max(-(-quota.period // MICROSECOND), 1), LONGEST)
    return min(quota.count, MOST), period, min(quota.burst, MOST)


def _charge_fields(charge: Charge) -> str:
    quota = charge.quota
    count, period, burst = _numbers(quota)
    return f"{_kind(quota)} {count} {period} {burst} {min(charge.cost, 2 * MOST)} {quota.enforced:d}"


def _draw_fields(draw: Draw) -> str:
    quota = draw.charge.quota
    count, period, burst = _numbers(quota)
    return f"{_kind(quota)} {count} {period} {burst} {draw.owed} {draw.want} {draw.deficit} {draw.since // MICROSECOND}"


def _outcome(numbers: Sequence[int]) -> Outcome:
    allowed, remaining, retry, reset = numbers
    return Outcome(bool(allowed), remaining, retry * MICROSECOND, reset * MICROSECOND)


def _drawn(numbers: Sequence[int], at: Instant) -> Drawn:
    granted, left, reset = numbers
    return Drawn(granted, left, reset * MICROSECOND, at)
