"""The last step, and the only one that lets a request pass: what is removed, what is set, what the answer carries."""

from authz.context import mint_context
from authz.credential import query_credentials
from authz.evidence import Answer, Evidence
from model.fields import limit_fields
from model.verdict import Allow


def grant_request(evidence: Evidence) -> Answer:
    """Allow the request, with its caller context, without its credentials and without anything a client may not say."""
    plan = evidence.plan
    route = plan.route
    request = evidence.request
    remove = plan.remove
    prefixes = plan.remove_prefixes
    if prefixes and (forged := [name for name in request.headers if name.startswith(prefixes)]):
        remove += tuple(forged)
    queried = query_credentials(request.path) if route.strip_credentials and "?" in request.path else ()
    header = evidence.resident.snapshot.context.header
    return Allow(
        caller=evidence.caller,
        set_headers=((header, mint_context(evidence)),) if route.context else (),
        remove_headers=remove,
        remove_query=tuple([name for name, _ in queried]) if queried else (),
        answer_headers=limit_fields(evidence.met, route.answer_fields),
        places=tuple([charge for charge in evidence.charges if charge.holder]),
    )
