"""Which single credential a request carries, and whether it is of a kind that is accepted here.

Nothing is verified yet. Two credentials are refused whatever they are worth (RFC 6750 section 2, bug report H-06):
choosing one would let two readers of the same request choose differently.
"""

from urllib.parse import unquote_plus

from authz.evidence import Answer, Credential, Evidence
from authz.plan import CREDENTIAL_HEADERS, CREDENTIAL_QUERY, KEY_HEADERS, KEY_QUERY, NOWHERE, Plan
from model.reason import Reason
from model.request import Request
from model.snapshot import Kind
from model.verdict import Deny

_SINGLE = frozenset((*CREDENTIAL_HEADERS, "host"))
_CREDENTIALS = frozenset(("authorization", *KEY_HEADERS))
_AMBIGUOUS = Reason.CREDENTIALS_AMBIGUOUS
_IN_QUERY = "A credential in the query is not accepted here."


def find_route(evidence: Evidence) -> Answer:
    """Refuse a request that no route of the snapshot fits: Envoy's route id is unknown, or there is none."""
    if evidence.plan is not NOWHERE:
        return None
    return Deny(Reason.ROUTE_UNLABELLED if evidence.request.route is None else Reason.ROUTE_UNKNOWN)


def find_credential(evidence: Evidence) -> Answer:
    """Find the credential and note it in the evidence."""
    found = read_credential(evidence.request, evidence.plan)
    if isinstance(found, Deny):
        return found
    evidence.credential = found
    evidence.caller.kind = str(found.kind)
    return None


def read_credential(request: Request, plan: Plan) -> Credential | Deny:
    """Read the one credential of a request, or the reason why there is not exactly one of an accepted kind."""
    if request.repeated and not _SINGLE.isdisjoint(request.repeated):
        return Deny(Reason.HEADER_REPEATED if _CREDENTIALS.isdisjoint(request.repeated) else _AMBIGUOUS)
    headers = request.headers
    authorization = headers.get("authorization")
    api_key = headers.get("x-api-key")
    queried = query_credentials(request.path) if "?" in request.path else ()
    if "apikey" in headers:
        if api_key:
            return Deny(_AMBIGUOUS)
        api_key = headers["apikey"]
    if plan.application:  # the key is the application's, and `read_key` reads it
        return _read_authorization(authorization, plan) if authorization else _read_absent(request, plan)
    if (authorization and api_key) or (queried and (authorization or api_key or len(queried) > 1)):
        return Deny(_AMBIGUOUS)
    if authorization:
        return _read_authorization(authorization, plan)
    if api_key:
        return _read_key(api_key, plan)
    if queried:
        return _read_queried(queried[0], plan)
    return _read_absent(request, plan)


def read_key(request: Request, plan: Plan) -> tuple[str, str] | Deny:
    """Read the API key that names an application, and where it stood: "" or "query". There is exactly one.

    In the query it is taken on stream routes only: neither an EventSource nor a WebSocket of a browser sets a header.
    """
    fields = [request.headers[name] for name in KEY_HEADERS if request.headers.get(name)]
    queried = query_credentials(request.path) if "?" in request.path else ()
    if len(fields) + len(queried) > 1 or any("," in field for field in fields):
        return Deny(_AMBIGUOUS)
    if fields:
        return fields[0], ""
    if not queried:
        return Deny(Reason.CREDENTIAL_MISSING, "An API key is needed that names the application.")
    raw, value = queried[0]
    if unquote_plus(raw).lower() in KEY_QUERY and plan.route.stream:
        return value, "query"
    return Deny(Reason.CREDENTIAL_KIND_REFUSED, _IN_QUERY)


def query_credentials(path: str) -> tuple[tuple[str, str], ...]:
    """Find credentials in the query: (parameter name as it stands there, decoded value), in order.

    Upper and lower case do not count: what a client took for a credential must not go on as something else.
    """
    found = []
    for pair in path.partition("?")[2].split("&"):
        raw, _, value = pair.partition("=")
        name = unquote_plus(raw) if "%" in raw else raw
        if name.lower() in CREDENTIAL_QUERY:
            found.append((raw, unquote_plus(value)))
    return tuple(found)


def _read_authorization(field: str, plan: Plan) -> Credential | Deny:
    """Split `Authorization` at the spaces after the scheme, which is case-insensitive (RFC 9110 sections 11.1, 11.4).

    Repeated fields arrive joined by a comma where Envoy does not send raw headers; no token of ours contains one.
    """
    scheme, _, rest = field.partition(" ")
    scheme = scheme.lower()
    if scheme not in ("bearer", "dpop"):
        return Deny(Reason.CREDENTIAL_KIND_REFUSED)
    token = rest.strip(" ")
    if "," in token:
        return Deny(Reason.CREDENTIALS_AMBIGUOUS)
    if not token or " " in token:
        return Deny(Reason.TOKEN_MALFORMED)
    kind = _token_kind(token, plan.kinds)
    return Deny(Reason.CREDENTIAL_KIND_REFUSED) if kind is None else Credential(kind, token, scheme)


def _token_kind(token: str, kinds: frozenset[Kind]) -> Kind | None:
    """Tell a JWT from an opaque token by its two dots, as far as both are accepted here."""
    shaped = token.count(".") == 2
    if shaped and Kind.JWT in kinds:
        return Kind.JWT
    order = (Kind.ASSERTION, Kind.OPAQUE) if shaped else (Kind.OPAQUE, Kind.JWT, Kind.ASSERTION)
    for kind in order:
        if kind in kinds:
            return kind
    return None


def _read_key(text: str, plan: Plan) -> Credential | Deny:
    if Kind.API_KEY not in plan.kinds:
        return Deny(Reason.CREDENTIAL_KIND_REFUSED)
    return Deny(Reason.CREDENTIALS_AMBIGUOUS) if "," in text else Credential(Kind.API_KEY, text)


def _read_queried(found: tuple[str, str], plan: Plan) -> Credential | Deny:
    """Accept an API key in the query on stream routes only: an EventSource cannot set a header field."""
    raw, value = found
    if unquote_plus(raw).lower() in KEY_QUERY and plan.route.stream and Kind.API_KEY in plan.kinds:
        return Credential(Kind.API_KEY, value, scheme="query")
    return Deny(Reason.CREDENTIAL_KIND_REFUSED, _IN_QUERY)


def _read_absent(request: Request, plan: Plan) -> Credential | Deny:
    """Without a credential of its own a request stands on its client certificate, or on nothing."""
    if Kind.CERTIFICATE in plan.kinds and request.certificate:
        return Credential(Kind.CERTIFICATE)
    if Kind.NONE in plan.kinds:
        return Credential(Kind.NONE)
    if plan.kinds == {Kind.CERTIFICATE}:
        return Deny(Reason.CERTIFICATE_MISSING)
    return Deny(Reason.CREDENTIAL_MISSING)
