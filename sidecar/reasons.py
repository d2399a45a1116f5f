"""docs/reasons.md, generated from the table of reasons so that the two cannot disagree."""

from model.reason import TABLE, Reason

HEAD = """# Reasons

Generated from `model/reason.py` by `wardgate reasons`; a test holds it in step. Each refusal is an RFC 9457 document
whose `type` is stable. Two reasons may share one `type`: the log and the metric `wardgate_decisions_total{reason}` tell
them apart, the client cannot. *Challenge* is the `error` of the `WWW-Authenticate` header; *code* is the Berlin Group
code that the document also carries.

| reason | status | type | fault | challenge | code | Retry-After | detail |
|---|---|---|---|---|---|---|---|
"""


def reasons_page() -> str:
    """Write the page: one row per reason, in the order of the enum."""
    return HEAD + "".join(_row(reason) for reason in Reason)


def _row(reason: Reason) -> str:
    row = TABLE[reason]
    challenge = "" if row.challenge is None else row.challenge or "(no error)"
    retry = "" if row.retry_after is None else str(row.retry_after)
    return (
        f"| `{reason.value}` | {row.status} | `{row.type}` | {row.fault} | {challenge} | {row.berlin or ''} | {retry} "
        f"| {row.detail} |\n"
    )
