"""Envoy's own replies as problem documents: which of its reasons is which of ours.

Envoy tells its replies apart by `response.code_details`. What the sidecar answered (a denial of ext_authz, a problem
of ext_proc) is Envoy's local reply too and must pass unchanged: the first mapper matches it and changes nothing.
"""

import json

from envoy_data_plane.envoy.config.accesslog import v3 as accesslog
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.access_loggers.filters.cel import v3 as cel
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm

from model.problem import MEDIA_TYPE, problem_document
from model.reason import TABLE, Reason
from policy.typed import header, pack, struct

_DETAILS = "response.code_details"
_OURS = f"{_DETAILS} in ['ext_authz_denied', 'lua_response'] || {_DETAILS}.startsWith('ext_proc_wardgate')"

# A request that is refused before Envoy gave it an id (a codec error, an escaped slash) gets one here.
_REQUEST_ID = '%COALESCE({"operators":[{"command":"REQ","param":"x-request-id"},"UNIQUE_ID"]})%'

# First match wins. The codes without details of their own follow the ones with.
_MAPPERS: tuple[tuple[str, Reason], ...] = (
    (f"{_DETAILS} == 'ext_authz_error' || {_DETAILS}.startsWith('ext_proc')", Reason.POLICY_UNAVAILABLE),
    (f"{_DETAILS}.contains('url-too-long')", Reason.URL_TOO_LONG),
    (f"{_DETAILS}.contains('host-malformed')", Reason.REQUEST_MALFORMED),
    (f"{_DETAILS}.contains('body-too-large')", Reason.REQUEST_TOO_LARGE),
    (f"{_DETAILS}.contains('response_buffer_size_limit')", Reason.UPSTREAM_INVALID),
    (f"{_DETAILS}.contains('overload')", Reason.OVERLOADED),
    (f"{_DETAILS} == 'upstream_max_stream_duration_reached'", Reason.UPSTREAM_TIMEOUT),
    ("response.code == 504", Reason.UPSTREAM_TIMEOUT),
    (f"response.code == 503 && {_DETAILS}.contains('overflow')", Reason.UPSTREAM_OVERLOADED),
    ("response.code == 503", Reason.UPSTREAM_UNREACHABLE),
    ("response.code == 413", Reason.REQUEST_TOO_LARGE),
    ("response.code == 431", Reason.HEADERS_TOO_LARGE),
    ("response.code == 404", Reason.ROUTE_UNKNOWN),
    ("response.code == 405", Reason.METHOD_REFUSED),
    ("response.code == 408", Reason.REQUEST_TIMEOUT),
    ("response.code == 502", Reason.UPSTREAM_INVALID),
    # A transfer coding that Envoy does not know (501) is a fault of the client, who must not set off alarms of ours.
    ("response.code == 501", Reason.REQUEST_MALFORMED),
    ("response.code < 500", Reason.REQUEST_MALFORMED),
    ("response.code >= 500", Reason.INTERNAL),
)


def local_replies() -> hcm.LocalReplyConfig:
    """Write the mappers: every reply that Envoy makes itself becomes an RFC 9457 document with the request id."""
    keep = hcm.ResponseMapper(filter=_when(_OURS))
    return hcm.LocalReplyConfig(mappers=[keep, *(_mapper(when, reason) for when, reason in _MAPPERS)])


def _mapper(when: str, reason: Reason) -> hcm.ResponseMapper:
    row = TABLE[reason]
    # A command alone keeps its type, a number of our own would come out as text: the status is Envoy's word for it.
    members = {**json.loads(problem_document(reason, "")), "status": "%RESPONSE_CODE%", "request_id": _REQUEST_ID}
    body = core.SubstitutionFormatString(json_format=struct(members), content_type=MEDIA_TYPE, omit_empty_values=True)
    wait = [] if row.retry_after is None else [header("retry-after", str(row.retry_after))]
    return hcm.ResponseMapper(
        filter=_when(when), status_code=row.status, body_format_override=body, headers_to_add=wait
    )


def _when(expression: str) -> accesslog.AccessLogFilter:
    return accesslog.AccessLogFilter(
        extension_filter=accesslog.ExtensionFilter(
            name="envoy.access_loggers.extension_filters.cel",
            typed_config=pack(cel.ExpressionFilter(expression=expression)),
        )
    )
