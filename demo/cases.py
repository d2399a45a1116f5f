"""The tour's single requests, as data: what is asked, and what must come back."""

from dataclasses import dataclass, replace

from demo.row import Expect
from demo.world import Ask, Token

ALPHA = Token("fintech-alpha")
PAYMENT = {
    "end_to_end_id": "tour-1",
    "instructed_amount": {"currency": "EUR", "amount": "12.50"},
    "debtor": {"name": "Ada", "iban": "DE02120300000000202051"},
    "creditor": {"name": "Bo", "iban": "FR1420041010050500013M02606"},
    "remittance_information": "rent",
}
FORGED = (
    ("X-Verified-Caller-Context", "eyJhbGciOiJub25lIn0.eyJjbGllbnRfaWQiOiJib3NzIn0."),
    ("X-Authenticated-Subject", "boss"),
    ("X-User-Roles", "admin"),
    ("X-Tenant-ID", "other"),
    ("X-Forwarded-For", "203.0.113.9"),
    ("X-Forwarded-Client-Cert", "Hash=00;Subject=CN=boss"),
    ("X-Envoy-Upstream-Rq-Timeout-Ms", "60000"),
    ("X-Envoy-Retry-On", "5xx"),
)
"""Headers by which a client would pass for somebody else, or steer the proxy; none of them may reach a backend."""

NO_ERROR = r'Bearer realm="[^"]+"'
INVALID = r'Bearer .*error="invalid_token".*'


@dataclass(frozen=True, slots=True)
class Case:
    """One request of the tour."""

    title: str
    ask: Ask
    expect: Expect


def _account(name: str, token: Token | None = ALPHA) -> Ask:
    return Ask("GET", f"/v3/accounts/{name}", token)


def _refused(title: str, token: Token | None, slug: str, challenge: str) -> Case:
    expect = Expect(401, slug, {"www-authenticate": challenge})
    return Case(title, _account("current", token), expect)


_ACCOUNT = Expect(200, members={"account_id": "current", "balance.currency": "EUR"})
_BAD = Expect(400)
_TRANSACTIONS = "/v3/accounts/current/transactions"

CASES = (
    Case("account, token signed with EdDSA", _account("current"), _ACCOUNT),
    Case("account, token signed with RS256", _account("current", replace(ALPHA, alg="RS256")), _ACCOUNT),
    Case("account, token signed with ES256", _account("current", replace(ALPHA, alg="ES256")), _ACCOUNT),
    Case(
        "every query parameter arrives",
        Ask("GET", f"{_TRANSACTIONS}?booked_from=2026-01-01&page_size=25&direction=DEBIT&category=a&category=b", ALPHA),
        Expect(
            200,
            members={
                "request.account_id": "current",
                "request.booked_from": "2026-01-01",
                "request.page_size": 25,
                "request.direction": "DEBIT",
                "request.category": ["a", "b"],
            },
        ),
    ),
    Case(
        "payment, every body field arrives",
        Ask("POST", "/v3/payments", replace(ALPHA, scope="payments"), body=PAYMENT),
        Expect(200, members={"status": "RCVD", "request": PAYMENT}),
    ),
    Case(
        "limit fields on the answer",
        _account("current"),
        Expect(200, headers={"ratelimit": r'"partner".*', "ratelimit-policy": r'"partner".*'}),
    ),
    Case(
        "public data without a credential",
        Ask("GET", "/v3/open-data/products", identity=None, plane="PUBLIC"),
        Expect(200, members={"products.0.product_id": "p-1"}),
    ),
    _refused("no token", None, "credential-missing", NO_ERROR),
    _refused("expired token", replace(ALPHA, expires_in=-600), "token-expired", INVALID),
    _refused("unsigned token (alg none)", replace(ALPHA, forgery="none"), "token-algorithm", INVALID),
    _refused("forged token (right kid, wrong key)", replace(ALPHA, forgery="key"), "token-signature", INVALID),
    Case(
        "token of another partner than the certificate",
        Ask("GET", "/v3/accounts/current", ALPHA, identity="fintech-beta"),
        Expect(401, "client-mismatch"),
    ),
    Case(
        "scope missing",
        _account("current", replace(ALPHA, scope="payments")),
        Expect(403, "scope-missing", {"www-authenticate": r'Bearer .*error="insufficient_scope".*scope="accounts".*'}),
    ),
    Case(
        "PSD2 role missing (fintech-beta is no payment initiator)",
        Ask("POST", "/v3/payments", Token("fintech-beta", "payments"), "fintech-beta", body=PAYMENT),
        Expect(403, "psd2-role-missing"),
    ),
    Case("unknown path", Ask("GET", "/v3/nothing-here", ALPHA), Expect(404, "route-unknown")),
    Case("unknown query parameter", Ask("GET", "/v3/accounts?colour=red", ALPHA), _BAD),
    Case("query parameter of the wrong type", Ask("GET", "/v3/accounts?page_size=many", ALPHA), _BAD),
    Case(
        "unknown body field",
        Ask("POST", "/v3/payments", replace(ALPHA, scope="payments"), body={**PAYMENT, "tip": 1}),
        _BAD,
    ),
    Case("body is not JSON", Ask("POST", "/v3/payments", replace(ALPHA, scope="payments"), body=b"{nope"), _BAD),
    Case("path with an encoded slash", Ask("GET", "/v3/accounts%2fcurrent", ALPHA), _BAD),
    Case("path with dot segments", Ask("GET", "/v3/open/../accounts/../../admin", ALPHA), Expect(404)),
    Case("path with a doubled slash", Ask("GET", "/v3//accounts/current", ALPHA), Expect(200)),
    Case("header name with an underscore", replace(_account("current"), headers=(("x_tenant_id", "other"),)), _BAD),
    Case("gRPC NOT_FOUND of the backend", _account("missing"), Expect(404)),
    Case("gRPC PERMISSION_DENIED of the backend", _account("forbidden"), Expect(403)),
    Case("gRPC INTERNAL of the backend", _account("broken"), Expect(500)),
    Case(
        "dead backend",
        Ask("GET", "/v3/funds/current", replace(ALPHA, scope="fundsconfirmations")),
        Expect(503, "upstream-unreachable", {"retry-after": "5"}),
    ),
)
