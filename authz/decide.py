"""The order of the checks, written down once, and the loop that runs it.

Pure: no clock, nothing awaited. `decide` is a generator: it yields what only the outside can tell and is sent the
reply. The first refusal wins, and only the last step allows.
"""

from collections.abc import Generator, Sequence

from authz.application import adopt_application, check_application
from authz.binding import check_binding, check_client
from authz.capacity import shed_strangers, shed_tier, spare_upstream
from authz.challenge import write_challenges
from authz.credential import find_credential, find_route
from authz.evidence import Ask, Evidence, Step
from authz.grant import grant_request
from authz.identify import check_certificate, check_credential
from authz.limits import limit_address, spend_quotas
from authz.requirement import check_requirement
from authz.revocation import check_revocation
from authz.token import Claims
from model.quota import Outcome
from model.verdict import Allow, Deny, Verdict

STEPS: tuple[Step, ...] = (
    shed_strangers,  # 503 under saturation, lowest rank first
    limit_address,  # 429 for a flood from one address, before anything is verified
    find_route,  # 404
    find_credential,  # 400 for two of them, 401 for none or one of a wrong kind
    check_certificate,  # 401, by the plane's profile
    check_application,  # 401, the API key beside it, where the route asks for one
    check_credential,  # 401, by its kind
    adopt_application,  # whose tier, limits and tenant count
    shed_tier,  # 503, now that the rank is known
    check_binding,  # 401, token to certificate or key
    check_client,  # 401, consumer to organisation
    check_revocation,  # 401
    check_requirement,  # 403
    spare_upstream,  # 503 while its breaker is open
    spend_quotas,  # 429, all in one spend
    grant_request,  # context minted, headers named
)
"""DESIGN section 4. Refusals that spend nothing come before the spend, so a refused request costs no quota."""

_ABOUT_APPLICATIONS = (check_application, adopt_application)
ORDERS = {True: STEPS, False: tuple(step for step in STEPS if step not in _ABOUT_APPLICATIONS)}
"""STEPS by whether an application is asked for: most routes ask for none, and are spared two steps that do nothing."""

Reply = Sequence[Outcome] | bool | Claims | Deny
"""What comes back for an ask: what its `then` takes, or a refusal that ends the decision."""


def decide(evidence: Evidence) -> Generator[Ask, Reply, Verdict]:
    """Judge a request. Yields asks, is sent replies, and returns the verdict."""
    for step in ORDERS[evidence.plan.application]:
        answer = step(evidence)
        while isinstance(answer, Ask):
            reply = yield answer
            answer = reply if isinstance(reply, Deny) else answer.then(evidence, reply)
        if answer is not None:
            return complete_verdict(evidence, answer)
    raise AssertionError("the last step neither allowed nor refused")


def complete_verdict(evidence: Evidence, verdict: Verdict) -> Verdict:
    """Add to a refusal what every refusal carries: who was recognised, and how to come back with a better one.

    A copy, because some refusals are remembered by the verifier that gave them.
    """
    if isinstance(verdict, Allow):
        return verdict
    challenges = verdict.challenges or write_challenges(verdict.reason, evidence.plan, _scheme(evidence))
    return Deny(
        verdict.reason,
        verdict.detail,
        evidence.caller,
        challenges,
        verdict.retry_after,
        verdict.answer_headers,
        verdict.extensions,
    )


def _scheme(evidence: Evidence) -> str:
    return evidence.credential.scheme if evidence.credential is not None else ""
