"""What one decision costs, from bytes to bytes, and where it goes. Run as a script it prints the figures.

Hot: the token and the certificate are known, the limiter answers from memory, the context of this second is minted.
Signed: the same with a context for each request. Cold: a token that nobody has seen, on a route without a context, so
that token work is compared with token work (a context costs `sign_us` on top). Microseconds, the fastest of many
short rounds; beside them one Ed25519 verification and one PyJWT decode on the same machine, to be read as ratios.
"""

import time
from collections.abc import Callable
from functools import cache
from itertools import cycle

import jwt

from authz.certificate import judge_certificate
from authz.evidence import open_evidence
from authz.gather import begin_verdict
from authz.recent import Recent
from authz.service import AuthorizationService
from authz.wire import read_check, write_verdict
from model.instant import MINUTE
from model.quota import Quota
from model.snapshot import Dimension, Limit, Requirement, Store
from ratelimit.limiter import open_limiter
from tests.authz import build, tokens

LIMIT = Limit(Quota("requests", 10**9, MINUTE, 10**9), (Dimension.CLIENT, Dimension.ROUTE))
# What Envoy adds where it is not configured by the compiler, which has it send only what the sidecar reads.
FIELDS = {
    ":authority": "api.example",
    ":path": "/v1/accounts?limit=20",
    ":method": "GET",
    ":scheme": "https",
    "user-agent": "partner-sdk/3.2 (linux; x86_64)",
    "accept": "application/json",
    "accept-encoding": "gzip, br",
    "content-type": "application/json",
    "x-forwarded-for": "192.0.2.7",
    "x-forwarded-proto": "https",
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "x-fapi-interaction-id": "93bac548-d2de-4546-b106-880a5018460d",
}


Call = Callable[[], object]


def measure() -> dict[str, float]:
    """Measure every part; names end in `_us`, ratios in `_over_` something."""
    figures = interleave(
        {
            "hot_us": checks(house(), [request()]),
            "hot_all_fields_us": checks(house(), [request_with_all_fields()]),
            "signed_us": checks(house(context_per_request=True), [request()]),
            "refused_us": checks(house(requirement=Requirement(scopes=("other",))), [request()]),
            "cold_eddsa_us": checks(house(context=False), cold("ed")),
            "cold_rs256_us": checks(house(context=False), cold("rsa")),
            **parts(),
            **yardsticks(),
        }
    )
    figures["core_hot_over_ed25519"] = figures["hot_us"] / figures["ed25519_verify_us"]
    figures["cold_eddsa_over_pyjwt"] = figures["cold_eddsa_us"] / figures["pyjwt_eddsa_us"]
    figures["cold_rs256_over_pyjwt"] = figures["cold_rs256_us"] / figures["pyjwt_rs256_us"]
    return figures


def interleave(calls: dict[str, Call], rounds: int = 200, number: int = 20) -> dict[str, float]:
    """The fastest round's microseconds a call: what disturbs a round only ever makes it slower.

    Every round runs all of them, so that what is compared met the same machine; rounds are short enough to fit between
    two disturbances.
    """
    fastest = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            call()  # what was measured before has emptied the caches
            started = time.perf_counter_ns()
            for _ in range(number):
                call()
            fastest[name] = min(fastest[name], (time.perf_counter_ns() - started) / number / 1000)
    return fastest


def house(**route):
    policy = build.snapshot(routes=(build.route(**route),), tiers=build.tiers(LIMIT))
    return build.resident(policy)


def request(bearer=None):
    return build.request(bearer=bearer or build.token(), certificate=build.certificate())


def request_with_all_fields():
    return build.request(headers=FIELDS, certificate=build.certificate())


def cold(key):
    """Requests with tokens of their own, more than one round can use up twice in a row."""
    return [request(text) for text in many_tokens(key)]


@cache
def many_tokens(key):
    """Tokens that differ in their id, the same ones for what is measured and for its yardstick."""
    return [tokens.token(key=key, jti=f"{key}-{n}") for n in range(300)]


def checks(resident, asked):
    """Calls of the whole service, one request after the other; of several tokens none is remembered."""
    service = AuthorizationService(resident, memory_limiter(), lambda: build.NOW, lambda *_: None)
    data = cycle([build.check_bytes(each) for each in asked])
    if len(asked) > 1:
        resident.tokens = Recent(2)
    return lambda: build.drive(service.check(next(data)))


def memory_limiter():
    return open_limiter(Store(), lambda: build.NOW)


def parts() -> dict[str, Call]:
    """The hot decision taken apart."""
    resident, limiter = house(), memory_limiter()
    asked = request()
    data = build.check_bytes(asked)
    read = read_check(data, build.NOW)
    verdict = begin_verdict(read, resident, limiter)
    charges = build.CountingLimiter()
    begin_verdict(read, resident, charges)
    (spend,) = charges.spends
    peer = resident.peers.get(asked.certificate)
    key = resident.live.ring.signer(build.NOW)
    return {
        "read_us": lambda: read_check(data, build.NOW),
        "decide_us": lambda: begin_verdict(read, resident, limiter),
        "evidence_us": lambda: open_evidence(read, resident),
        "certificate_us": lambda: judge_certificate(peer, resident.trusts["partner"], build.NOW),
        "spend_us": lambda: limiter.admit(spend, build.NOW),
        "sign_us": lambda: key.sign(b"x" * 300),
        "write_us": lambda: write_verdict(verdict, read),
    }


def yardsticks() -> dict[str, Call]:
    private = tokens.private_key("ed")
    public, message = private.public_key(), b"m" * 300
    signature = private.sign(message)
    rsa, ed = tokens.private_key("rsa").public_key(), public
    options = {"verify_exp": False, "verify_iat": False}

    def decode(name, key, algorithm):
        texts = cycle(many_tokens(name))
        return lambda: jwt.decode(next(texts), key, algorithms=[algorithm], audience="api", options=options)

    return {
        "ed25519_verify_us": lambda: public.verify(signature, message),
        "pyjwt_eddsa_us": decode("ed", ed, "EdDSA"),
        "pyjwt_rs256_us": decode("rsa", rsa, "RS256"),
    }


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:28} {value:10.2f}")
