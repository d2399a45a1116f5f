"""What an upstream does with the caller context."""

import pytest

from authz.verifier import ContextRefused, ContextVerifier
from model.instant import DAY, SECOND
from tests.authz.build import NOW, judge, request, resident, ring, route, snapshot


class Clock:
    def __init__(self, now=NOW):
        self.now = now

    def __call__(self):
        return self.now


def verifier(**changes):
    values = {"audience": "account-ledger", "issuer": "wardgate", "clock": Clock(), **changes}
    return ContextVerifier(values.pop("source", lambda: ring().jwks()), **values)


def context(asked=None, **route_changes):
    allowed = judge(asked, resident(snapshot(routes=(route(**route_changes),))))
    return dict(allowed.set_headers)["x-verified-caller-context"]


def test_upstream_learns_who_calls():
    """A fresh context tells the upstream client, subject, tier, tenant, scopes, route and request."""
    caller = verifier().verify(context())

    assert (caller.client_id, caller.subject, caller.tier, caller.tenant) == ("client-1", "user-1", "partner", "bank-1")
    assert (caller.scopes, caller.route, caller.request_id) == (("accounts", "payments"), "accounts", "req-1")


@pytest.mark.parametrize("text", [None, "", "a.b.c", "x" * 5000, "é.é.é"])
def test_what_is_no_context_is_refused(text):
    """Absence, nonsense and excess are refused alike, and nothing else is raised."""
    with pytest.raises(ContextRefused):
        verifier().verify(text)


def test_context_for_another_upstream_is_refused():
    """One upstream cannot use at another what it was sent itself."""
    with pytest.raises(ContextRefused, match="InvalidAudience"):
        verifier(audience="payment-initiation").verify(context())


def test_context_of_another_gateway_is_refused():
    """The issuer is compared."""
    with pytest.raises(ContextRefused, match="InvalidIssuer"):
        verifier(issuer="other").verify(context())


def test_context_is_accepted_until_its_expiry_and_not_after_it():
    """30 seconds and the leeway, and then no more."""
    clock = Clock()
    subject = verifier(clock=clock, leeway=0)
    text = context()

    clock.now = NOW + 30 * SECOND - 1
    assert subject.verify(text).client_id == "client-1"
    clock.now = NOW + 30 * SECOND
    with pytest.raises(ContextRefused, match="expired"):
        subject.verify(text)


def test_old_context_is_refused_even_where_its_own_expiry_would_allow_it():
    """Age is bounded by the upstream too: replay is possible for as long as it says and no longer."""
    clock = Clock(NOW + 5 * SECOND)
    with pytest.raises(ContextRefused, match="too old"):
        verifier(clock=clock, max_age=2 * SECOND, leeway=SECOND).verify(context())


def test_context_from_the_future_is_refused():
    """A clock that is wrong by a minute shows."""
    with pytest.raises(ContextRefused, match="future"):
        verifier(clock=Clock(NOW - 60 * SECOND)).verify(context())


def test_bound_context_holds_for_its_request_only():
    """Method and path are those of the request for which it was minted."""
    text = context(request(method="POST", path="/v1/payments?x=1"), context_per_request=True)
    subject = verifier()

    assert subject.verify(text, method="POST", path="/v1/payments?x=1").client_id == "client-1"
    for method, path in (("GET", "/v1/payments?x=1"), ("POST", "/v1/payments"), ("", "")):
        with pytest.raises(ContextRefused, match="another request"):
            subject.verify(text, method=method, path=path)


def test_unbound_context_is_refused_where_the_upstream_wants_bound_ones():
    """An upstream can demand the binding."""
    with pytest.raises(ContextRefused, match="another request"):
        verifier().verify(context(), method="GET", path="/v1/accounts", bound=True)


def test_changed_context_is_refused():
    """Any change of the payload or of the signature shows."""
    head, payload, signature = context().split(".")
    for text in (f"{head}.{payload[:-2]}AA.{signature}", f"{head}.{payload}.{'A' * 86}", f"{head}.{payload}."):
        with pytest.raises(ContextRefused):
            verifier().verify(text)


def test_token_of_the_identity_provider_is_no_context():
    """Even under a key of the gateway, a JWT of another type is not a caller context."""
    from tests.authz.tokens import token

    with pytest.raises(ContextRefused, match="not a caller context"):
        verifier().verify(token())


def test_rotation_is_followed_without_a_refused_context():
    """A key that the upstream does not know yet makes it read the set again."""
    rings = [ring()]
    clock = Clock()
    subject = verifier(source=lambda: rings[0].jwks(), clock=clock)  # noqa: PLW0108 - the ring changes below
    subject.verify(context())
    clock.now = NOW + DAY + SECOND
    rings[0] = ring().rotate(NOW + DAY - SECOND * 60)
    house = resident(ring=rings[0])
    from authz.resident import FixedKeys
    from tests.authz.tokens import token, trust

    house.live.keys = FixedKeys(trust(until=NOW + 9 * DAY))
    later = token(exp=clock.now // SECOND + 60, iat=clock.now // SECOND)
    allowed = judge(request(bearer=later, received=clock.now), house)

    assert subject.verify(allowed.set_headers[0][1]).client_id == "client-1"


def test_unknown_keys_cause_one_read_per_cooldown():
    """A flood of contexts under unknown keys is not a flood of fetches."""
    reads = []

    def source():
        reads.append(1)
        return {"keys": []}

    clock = Clock()
    subject = verifier(source=source, clock=clock, cooldown=10 * SECOND)
    text = context()
    for _ in range(5):
        with pytest.raises(ContextRefused, match="unknown key"):
            subject.verify(text)
    clock.now += 10 * SECOND
    with pytest.raises(ContextRefused):
        subject.verify(text)

    assert len(reads) == 2


def test_key_source_that_fails_refuses_and_keeps_what_is_known():
    """The gateway's key endpoint may be away: known keys go on verifying, unknown ones are refused."""

    def broken():
        raise OSError("away")

    with pytest.raises(ContextRefused, match="cannot be read"):
        verifier(source=broken).verify(context())


@pytest.mark.parametrize(
    "odd",
    [None, "key", {}, {"crv": "Ed25519", "kid": ["a"]}, {"kty": "OKP", "crv": "Ed25519", "x": "AA", "kid": "bad"}],
)
def test_one_key_that_cannot_be_read_leaves_the_others_usable(odd):
    """RFC 7517 section 5: a set may hold what this reader does not understand."""
    text = context()
    mixed = {"keys": [odd, *ring().jwks()["keys"]]}

    assert verifier(source=lambda: mixed).verify(text).client_id == "client-1"
