"""Builders for the tests of the rate limit service: rules from text, requests as bytes, a service on a fake clock."""

from collections.abc import Sequence
from textwrap import dedent

from model.instant import SECOND, Instant
from model.quota import Charge, LimiterUnavailable, Outcome
from pb.ratelimit_pb2 import RateLimitRequest, RateLimitResponse
from ratelimit.imported import read_rules
from ratelimit.limiter import MemoryLimiter
from ratelimit.rules import Rules
from ratelimit.service import Options, RateLimitService

START: Instant = 1_800_000_000 * SECOND

OK = RateLimitResponse.OK
OVER = RateLimitResponse.OVER_LIMIT


def rules(text: str, name: str = "rules.yaml", **options) -> Rules:
    """Rules from the indented text of one file."""
    return read_rules([(name, dedent(text).lstrip("\n"))], **options)


def request(domain: str, *descriptors: Sequence[tuple[str, str]], hits: int = 0) -> RateLimitRequest:
    """A request with one descriptor for each list of (key, value)."""
    made = RateLimitRequest(domain=domain, hits_addend=hits)
    for entries in descriptors:
        descriptor = made.descriptors.add()
        for key, value in entries:
            descriptor.entries.add(key=key, value=value)
    return made


class WatchedLimiter(MemoryLimiter):
    """A memory limiter that remembers what it was asked to spend, and can be away."""

    def __init__(self) -> None:
        super().__init__()
        self.spent: list[Sequence[Charge]] = []
        self.away = False

    def admit(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        if self.away:
            raise LimiterUnavailable
        self.spent.append(charges)
        return super().admit(charges, now)


class Asked:
    """A service on a fake clock: `await asked(request)` is the parsed answer."""

    def __init__(self, rules: Rules, **options) -> None:
        self.now = START
        self.limiter = WatchedLimiter()
        self.answers = []
        self.service = RateLimitService(
            rules, self.limiter, lambda: self.now, lambda *told: self.answers.append(told), Options(**options)
        )

    async def __call__(self, asked: RateLimitRequest) -> RateLimitResponse:
        return RateLimitResponse.FromString(await self.service.should_rate_limit(asked.SerializeToString()))

    async def ask(self, domain: str, *descriptors: Sequence[tuple[str, str]], hits: int = 0) -> RateLimitResponse:
        return await self(request(domain, *descriptors, hits=hits))

    async def codes(self, times: int, domain: str, *descriptors: Sequence[tuple[str, str]]) -> list[int]:
        return [(await self.ask(domain, *descriptors)).overall_code for _ in range(times)]

    def wait(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)


def headers(response: RateLimitResponse) -> dict[str, str]:
    return {header.key: header.value for header in response.response_headers_to_add}


def remaining(response: RateLimitResponse) -> list[int]:
    return [status.limit_remaining for status in response.statuses]


def codes(response: RateLimitResponse) -> list[int]:
    return [status.code for status in response.statuses]


async def look(asked: Asked, domain: str, *entries: tuple[str, str]) -> RateLimitResponse:
    question = request(domain, entries)
    question.descriptors[0].hits_addend.value = 0
    return await asked(question)
