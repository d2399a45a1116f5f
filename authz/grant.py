"""The last step, and the only one that lets a request pass: what is removed, what is set, what the answer carries."""

from authz.context import mint_context
from authz.credential import query_credentials
from authz.evidence import Answer, Evidence
from authz.plain import plain_fields
from model.fields import limit_fields
from model.verdict import Allow, Header


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
    context = evidence.resident.snapshot.context
    fields: tuple[Header, ...] = ((context.header, mint_context(evidence)),) if route.context else ()
    if route.context and context.plain:
        plain, absent = plain_fields(evidence)
        fields, remove = fields + plain, remove + absent
    return Allow(
        caller=evidence.caller,
        set_headers=fields,
        remove_headers=remove,
        remove_query=tuple([name for name, _ in queried]) if queried else (),
        answer_headers=limit_fields(evidence.met, route.answer_fields),
        places=tuple([charge for charge in evidence.charges if charge.holder]),
    )
