"""WWW-Authenticate: which credential to come with, and what was wrong with the one that came.

RFC 6750 section 3 for Bearer, RFC 9449 section 7.1 for DPoP, RFC 9110 section 11.6.1 for the rest: every 401 names at
least one challenge. What a client sent is never echoed, so nothing has to be escaped but the gateway's own words.
"""

from collections.abc import Iterable

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
_PROOF_ERRORS = ("invalid_dpop_proof", "use_dpop_nonce")


def write_challenges(reason: Reason, plan: Plan) -> tuple[str, ...]:
    """Write the challenges of a refusal, one header field each; () where the status asks for none."""
    row = TABLE[reason]
    if row.status != 401 and row.challenge is None:
        return ()
    realm = _quote(plan.plane.realm)
    error = row.challenge or ""
    if error in _PROOF_ERRORS:
        parameters = _error_parameters(error, row.detail, ())
        return (f'DPoP realm={realm}, {", ".join(parameters)}, algs="{PROOF_ALGORITHMS}"',)
    schemes = dict.fromkeys(_SCHEMES[kind] for kind in _SCHEMES if kind in plan.kinds)
    if error and "Bearer" in schemes:
        required = plan.route.requirement.scopes if error == "insufficient_scope" else ()
        return (", ".join([f"Bearer realm={realm}", *_error_parameters(error, row.detail, required)]),)
    return tuple(f"{scheme} realm={realm}" for scheme in schemes) if row.status == 401 else ()


def _error_parameters(error: str, description: str, scopes: Iterable[str]) -> list[str]:
    """Write the parameters after the realm; `scope` lists all that the resource needs (RFC 6750 section 3)."""
    parameters = [f"error={_quote(error)}", f"error_description={_quote(description)}"]
    required = " ".join(scopes)
    return [*parameters, f"scope={_quote(required)}"] if required else parameters


def _quote(text: str) -> str:
    """Write a quoted string of the characters that RFC 6750 section 3 allows: %x20-21 / %x23-5B / %x5D-7E."""
    return '"' + "".join(letter for letter in text if " " <= letter <= "~" and letter not in '"\\') + '"'
