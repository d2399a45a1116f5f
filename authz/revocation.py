"""Whether anything about the credential has been revoked: asked on every request, of lists that are resident.

Nothing waits for the feed: while it is away what it told stays refused, and only the age of its last word grows. A
document that bounds that age (`revocation.max_age`) has writes wait for it; reads go on.
"""

from authz.denylist import Denylist, Subject
from authz.evidence import Answer, Application, Evidence
from model.instant import Instant
from model.reason import Reason
from model.snapshot import Access, Kind
from model.verdict import Deny


def check_revocation(evidence: Evidence) -> Answer:
    """Refuse a credential, client, signing key, certificate or organisation that the denylist names."""
    live = evidence.resident.live
    for denylist in (live.denylist, live.filed):
        refusal = _search(evidence, denylist) if denylist else None
        if refusal is not None:
            return refusal
    return _judge_age(evidence, live.heard)


def _search(evidence: Evidence, denylist: Denylist) -> Answer:
    revokes, now = denylist.revokes, evidence.now
    for subject, scope, name in evidence.marks:
        if revokes(subject, scope, name, evidence.issued, now):
            return Deny(Reason.CREDENTIAL_REVOKED)
    if revokes(Subject.CLIENT, "", evidence.caller.client_id, evidence.issued, now):
        return Deny(Reason.CREDENTIAL_REVOKED)
    if evidence.application is not None and _revokes_application(evidence.application, denylist, now):
        return Deny(Reason.CREDENTIAL_REVOKED)
    identity = evidence.identity
    if identity is None:
        return None
    if revokes(Subject.CERTIFICATE, identity.issuer, identity.serial, None, now):
        return Deny(Reason.CERTIFICATE_REVOKED)
    if revokes(Subject.ORGANISATION, "", identity.organisation, None, now):
        return Deny(Reason.CERTIFICATE_BLOCKED)
    return None


def _revokes_application(application: Application, denylist: Denylist, now: Instant) -> bool:
    """Tell whether the key that names the application is revoked, or its client, whenever the token was issued."""
    key = denylist.revokes(Subject.API_KEY, "", application.record.id, None, now)
    return key or denylist.revokes(Subject.CLIENT, "", application.consumer.client_id, None, now)


def _judge_age(evidence: Evidence, heard: Instant) -> Answer:
    """Refuse a write where a revocation may not have been heard of; who came without a credential has none."""
    max_age = evidence.resident.snapshot.revocation.max_age
    if max_age is None or evidence.now - heard <= max_age or evidence.plan.route.access is Access.READ:
        return None
    named = evidence.identity is not None or evidence.caller.kind != Kind.NONE.value
    return Deny(Reason.REVOCATION_UNAVAILABLE) if named else None
