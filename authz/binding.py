"""Whether the credential and the connection belong together: `cnf` (RFC 8705, RFC 9449), and client to organisation."""

import hmac

from authz.evidence import Answer, Evidence
from authz.proof import Demand, ReplaysFull, judge_proof
from model.reason import Reason
from model.snapshot import Kind
from model.verdict import Deny

CERTIFICATE_BOUND = "x5t#S256"
KEY_BOUND = "jkt"


def check_binding(evidence: Evidence) -> Answer:
    """Hold every binding of the token against the connection; an unbound one only where the route allows it.

    A token that names both a certificate and a key must meet both. A certificate or an anonymous request has nothing
    to bind; an API key is a bearer secret and never meets a route that demands bound credentials.
    """
    confirmation = evidence.claims.confirmation if evidence.claims is not None else {}
    credential = evidence.credential
    if credential is not None and credential.scheme == "dpop" and KEY_BOUND not in confirmation:
        return Deny(Reason.BINDING_MISMATCH)
    if not confirmation:
        return _judge_unbound(evidence)
    if CERTIFICATE_BOUND in confirmation and not _holds_certificate(evidence, confirmation[CERTIFICATE_BOUND]):
        return Deny(Reason.BINDING_MISMATCH)
    if KEY_BOUND in confirmation:
        return _judge_proof(evidence, confirmation[KEY_BOUND])
    return None


def check_client(evidence: Evidence) -> Answer:
    """Hold the organisation of the certificate against those that the consumer is registered with.

    A consumer with registered organisations comes with one of their certificates wherever the plane takes any: a
    stolen token is then worth nothing without the partner's key.
    """
    consumer = evidence.consumer
    if consumer is None or not consumer.organisations or evidence.plan.plane.certificate is None:
        return None
    identity = evidence.identity
    if identity is None or identity.organisation not in consumer.organisations:
        return Deny(Reason.CLIENT_MISMATCH)
    return None


def _judge_unbound(evidence: Evidence) -> Answer:
    kind = evidence.credential.kind if evidence.credential is not None else Kind.NONE
    bound = kind is Kind.CERTIFICATE or (kind is Kind.NONE and evidence.application is None)
    return Deny(Reason.TOKEN_UNBOUND) if evidence.plan.route.requirement.bound and not bound else None


def _holds_certificate(evidence: Evidence, thumbprint: str) -> bool:
    """Compare with the certificate of this connection, in constant time (RFC 8705 section 3)."""
    identity = evidence.identity
    return identity is not None and hmac.compare_digest(identity.thumbprint.encode(), thumbprint.encode())


def _judge_proof(evidence: Evidence, thumbprint: str) -> Answer:
    """Hold the proof of a key that a token is bound to; as a Bearer token it is refused (RFC 9449 section 7.1).

    A gateway that cannot tell whether a proof was used before takes none.
    """
    credential, request = evidence.credential, evidence.request
    proof = request.headers.get("dpop")
    if credential is None or credential.scheme != "dpop" or not proof:
        return Deny(Reason.PROOF_MISSING)
    origin = evidence.plan.plane.origin
    if not origin:
        return Deny(Reason.BINDING_UNSUPPORTED)
    demand = Demand(request.method, origin, request.path, credential.text, thumbprint)
    try:
        return judge_proof(proof, demand, evidence.resident.live.proofs, evidence.now)
    except ReplaysFull:
        return Deny(Reason.OVERLOADED)
