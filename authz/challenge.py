"""WWW-Authenticate: which credential to come with, and what was wrong with the one that came.

RFC 6750 section 3 for Bearer, RFC 9449 section 7.1 for DPoP, RFC 9110 section 11.6.1 for the rest: every 401 names at
least one challenge. What a client sent is never echoed, so nothing has to be escaped but the gateway's own words.
"""

from functools import lru_cache

from authz.plan import Plan
from model.reason import TABLE, Reason
from model.snapshot import Kind

PROOF_ALGORITHMS = "ES256 EdDSA"
"""The `algs` of a DPoP challenge."""

_SCHEMES: dict[Kind, str] = {
    Kind.JWT: "Bearer",
    Kind.OPAQUE: "Bearer",
    Kind.ASSERTION: "Bearer",
    Kind.API_KEY: "ApiKey",
    Kind.CERTIFICATE: "Certificate",
}
_PROOF_ERROR = "invalid_dpop_proof"


def write_challenges(reason: Reason, plan: Plan, scheme: str = "") -> tuple[str, ...]:
    """Write the challenges of a refusal, one header field each; () where the status asks for none.

    `scheme` is that in which a token came: what was wrong is said in the same one. Before there is a token, DPoP is
    named where the route demands bound tokens and the plane can hold a proof against its origin.
    """
    row = TABLE[reason]
    if row.status != 401 and row.challenge is None:
        return ()
    realm = _quote(plan.plane.realm)
    error = row.challenge or ""
    schemes = dict.fromkeys(_SCHEMES[kind] for kind in _SCHEMES if kind in plan.kinds)
    if error and ("Bearer" in schemes or error == _PROOF_ERROR):
        required = plan.route.requirement.scopes if error == "insufficient_scope" else ()
        parameters = _error_parameters(error, row.detail, required)
        if scheme == "dpop" or error == _PROOF_ERROR:
            return (f'DPoP realm={realm}, {parameters}, algs="{PROOF_ALGORITHMS}"',)
        return (f"Bearer realm={realm}, {parameters}",)
    if row.status != 401:
        return ()
    written = [f"{name} realm={realm}" for name in schemes]
    if "Bearer" in schemes and plan.route.requirement.bound and plan.plane.origin:
        written.append(f'DPoP realm={realm}, algs="{PROOF_ALGORITHMS}"')
    return tuple(written)


@lru_cache(maxsize=1024)
def _error_parameters(error: str, description: str, scopes: tuple[str, ...]) -> str:
    """Write the parameters after the realm; `scope` lists all that the resource needs (RFC 6750 section 3)."""
    parameters = f"error={_quote(error)}, error_description={_quote(description)}"
    return f"{parameters}, scope={_quote(' '.join(scopes))}" if scopes else parameters


@lru_cache(maxsize=1024)
def _quote(text: str) -> str:
    """Write a quoted string of the characters that RFC 6750 section 3 allows: %x20-21 / %x23-5B / %x5D-7E."""
    return '"' + "".join(letter for letter in text if " " <= letter <= "~" and letter not in '"\\') + '"'
