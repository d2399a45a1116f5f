"""The application behind a request, on routes where it is named by an API key beside the user's own credential.

Two credentials, and each in a place of its own: the key in its header field (or, on stream routes, in the query), the
user's in `Authorization`. The application has the tier, the limits and the tenant; the user has subject, scopes and
roles. Where there is no user, the key's record says what scopes and roles there are.
"""

from authz.apikey import judge_key
from authz.credential import read_key
from authz.denylist import Subject
from authz.evidence import Answer, Application, Evidence
from authz.standing import admit_consumer
from model.reason import Reason
from model.snapshot import Kind
from model.verdict import Deny


def check_application(evidence: Evidence) -> Answer:
    """Verify the key that names the application, where the route asks for one: 401 without it, or with a bad one."""
    if not evidence.plan.application:
        return None
    found = read_key(evidence.request, evidence.plan)
    if isinstance(found, Deny):
        return found
    application = verify_key(evidence, *found)
    if isinstance(application, Deny):
        return application
    evidence.application = application
    return None


def verify_key(evidence: Evidence, text: str, scheme: str) -> Application | Deny:
    """Verify an API key and find the client that it was given to. A privileged one is not taken from a query."""
    record = judge_key(text, evidence.resident.live.api_keys, evidence.now)
    if isinstance(record, Deny):
        return record
    if record.privileged and scheme == "query":
        return Deny(Reason.CREDENTIAL_KIND_REFUSED)
    consumer = evidence.resident.snapshot.consumers.get(record.client_id)
    return Deny(Reason.CLIENT_UNKNOWN) if consumer is None else Application(record, consumer)


def adopt_application(evidence: Evidence) -> Answer:
    """Let the application stand in front of its user, now that both are known."""
    application = evidence.application
    if application is None:
        return None
    record = application.record
    if evidence.caller.client_id:  # of the user's token: revoked, it is refused in front of any application
        evidence.marks = (*evidence.marks, (Subject.CLIENT, "", evidence.caller.client_id))
    if evidence.credential is not None and evidence.credential.kind is Kind.NONE:
        evidence.scopes, evidence.roles, evidence.serial = record.scopes, record.roles, record.id
        evidence.caller.kind = Kind.API_KEY.value
    evidence.caller.tenant = record.tenant
    return admit_consumer(evidence, application.consumer)
