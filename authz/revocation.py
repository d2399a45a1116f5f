"""Whether anything about the credential has been revoked: asked on every request, of a list that is resident."""

from authz.denylist import Subject
from authz.evidence import Answer, Evidence
from model.reason import Reason
from model.verdict import Deny


def check_revocation(evidence: Evidence) -> Answer:
    """Refuse a credential, client, signing key, certificate or organisation that the denylist names."""
    revokes = evidence.resident.live.denylist.revokes
    now = evidence.now
    for subject, scope, name in evidence.marks:
        if revokes(subject, scope, name, evidence.issued, now):
            return Deny(Reason.CREDENTIAL_REVOKED)
    if revokes(Subject.CLIENT, "", evidence.caller.client_id, evidence.issued, now):
        return Deny(Reason.CREDENTIAL_REVOKED)
    identity = evidence.identity
    if identity is None:
        return None
    if revokes(Subject.CERTIFICATE, identity.issuer, identity.serial, None, now):
        return Deny(Reason.CERTIFICATE_REVOKED)
    if revokes(Subject.ORGANISATION, "", identity.organisation, None, now):
        return Deny(Reason.CERTIFICATE_BLOCKED)
    return None
