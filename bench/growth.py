"""Whether a decision costs the same however much there is: routes, live buckets, credentials, issuers."""

import json
from collections.abc import Callable

from authz.apikey import hash_key, judge_key
from authz.keytable import index_keys
from authz.service import AuthorizationService
from authz.token import verify_token
from bench.decide import LIMIT, interleave
from model.quota import Charge
from model.snapshot import Store
from ratelimit.limiter import open_limiter
from tests.authz import build, tokens

Call = Callable[[], object]

ROUTES = (10, 100, 800)
CREDENTIALS = (10, 1_000, 100_000, 500_000)
BUCKETS = (10, 1_000, 100_000)
ISSUERS = (1, 10, 50)


def measure_growth(credentials: tuple[int, ...] = CREDENTIALS) -> dict[str, dict[int, float]]:
    """Microseconds of one decision, or of the look-up in question, by how much there is of each kind."""
    return {
        "routes": interleave({n: with_routes(n) for n in ROUTES}),
        "credentials": interleave({n: with_credentials(n) for n in credentials}),
        "buckets": interleave({n: with_buckets(n) for n in BUCKETS}),
        "issuers": interleave({n: with_issuers(n) for n in ISSUERS}),
    }


def growth_figures(grown: dict[str, dict[int, float]]) -> dict[str, float]:
    """Divide the cost at the most by the cost at the least."""
    return {f"growth_{name}": row[max(row)] / row[min(row)] for name, row in grown.items()}


def with_routes(count: int) -> Call:
    """A hot decision among so many routes."""
    others = tuple(build.route(id=f"route-{n}") for n in range(count - 1))
    return _decision(build.resident(build.snapshot(routes=(build.route(), *others), tiers=build.tiers(LIMIT))))


def with_issuers(count: int) -> Call:
    """A cold verification among so many issuers, by the last of them."""
    trust = {}
    for n in range(count):
        trust |= tokens.trust(id=f"i{n}", issuer=f"https://idp-{n}.example")
    text = tokens.token(iss=f"https://idp-{count - 1}.example")
    return lambda: verify_token(text, trust, tokens.NOW)


def with_credentials(count: int) -> Call:
    """The judgement of one API key among so many."""
    digest = hash_key("nobody.knows")
    line = json.dumps({"id": "ID", "sha256": digest, "client_id": "c"})
    lines = (line.replace("ID", f"k{n}").encode() for n in range(count - 1))
    own = json.dumps({"id": "own", "sha256": hash_key("own.secret"), "client_id": "c"}).encode()
    table = index_keys([own, *lines])
    return lambda: judge_key("own.secret", table, build.NOW)


def with_buckets(count: int) -> Call:
    """A spend of one client among so many live ones."""
    limiter = open_limiter(Store(), lambda: build.NOW)
    for n in range(count - 1):
        limiter.admit((Charge(LIMIT.quota, ("t", str(n)), 1, str(n)),), build.NOW)
    charges = (Charge(LIMIT.quota, ("t", "own"), 1, "own"),)
    return lambda: limiter.admit(charges, build.NOW)


def _decision(resident: object) -> Call:
    limiter = open_limiter(Store(), lambda: build.NOW)
    service = AuthorizationService(resident, limiter, lambda: build.NOW, lambda *_: None)
    data = build.check_bytes(build.request(bearer=build.token(), certificate=build.certificate()))
    return lambda: build.drive(service.check(data))
