"""RFC 9457 problem documents, written in one place for all three services and for Envoy's own replies."""

import json
from collections.abc import Mapping

from model.reason import TABLE, Reason

MEDIA_TYPE = "application/problem+json"

# kept: json.dumps makes a new encoder for each call that wants other separators
_ENCODER = json.JSONEncoder(separators=(",", ":"))

Extension = str | int | bool | list[str] | list[dict[str, str]]


def problem_document(
    reason: Reason,
    request_id: str,
    detail: str | None = None,
    extensions: Mapping[str, Extension] | None = None,
) -> str:
    """Write the document for a reason.

    `status` equals the HTTP status of the answer (RFC 9457 section 3.1.2). `detail` overrides the table's sentence
    and must never quote a credential. Extension members follow the standard ones.
    """
    row = TABLE[reason]
    members: dict[str, Extension] = {
        "type": row.type,
        "title": row.title,
        "status": row.status,
        "detail": detail or row.detail,
    }
    if row.berlin is not None:
        members["code"] = row.berlin
    if extensions:
        members.update(extensions)
    if request_id:
        members["request_id"] = request_id
    return _ENCODER.encode(members)
