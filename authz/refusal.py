"""A refusal as an HTTP answer: status, header fields, document."""

import json
from dataclasses import dataclass

from model.problem import MEDIA_TYPE, problem_document
from model.reason import TABLE
from model.request import Request
from model.verdict import Deny, Header

TPP_MESSAGES = "tpp-messages"
"""The error style of Berlin Group NextGenPSD2 section 4.13.1, for clients that read no problem documents."""

# The message code where the table names none (NextGenPSD2 section 14.11), by HTTP status.
_CODES = {403: "SERVICE_BLOCKED", 404: "RESOURCE_UNKNOWN", 405: "SERVICE_INVALID"}
_LONGEST_TEXT = 500


@dataclass(slots=True)
class Refusal:
    """An HTTP answer; `headers` may hold a name several times (WWW-Authenticate)."""

    status: int
    headers: list[Header]
    body: str


def write_refusal(deny: Deny, request: Request, style: str = "problem") -> Refusal:
    """Write the answer for a refusal, as a problem document (RFC 9457) or as `tppMessages`."""
    row = TABLE[deny.reason]
    problem = style != TPP_MESSAGES
    headers: list[Header] = [
        ("content-type", MEDIA_TYPE if problem else "application/json"),
        ("cache-control", "no-store"),
    ]
    wait = row.retry_after if deny.retry_after is None else deny.retry_after
    if wait is not None:
        headers.append(("retry-after", str(max(1, wait))))
    headers += [("www-authenticate", challenge) for challenge in deny.challenges]
    headers += deny.answer_headers
    body = problem_document(deny.reason, request.id, deny.detail, deny.extensions) if problem else _write_messages(deny)
    return Refusal(row.status, headers, body)


def _write_messages(deny: Deny) -> str:
    row = TABLE[deny.reason]
    fallback = "INTERNAL_SERVER_ERROR" if row.status >= 500 else "FORMAT_ERROR"
    code = row.berlin or _CODES.get(row.status, fallback)
    message = {"category": "ERROR", "code": code, "text": (deny.detail or row.detail)[:_LONGEST_TEXT]}
    return json.dumps({"tppMessages": [message]}, separators=(",", ":"))
