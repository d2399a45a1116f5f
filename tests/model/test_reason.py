"""The table of reasons is whole, and what it promises to clients holds for each row."""

from pathlib import Path

import pytest

from model.reason import IANA, TABLE, Reason
from sidecar.reasons import reasons_page

ROOT = Path(__file__).parent.parent.parent


def test_every_reason_has_a_row():
    """The enum and the table are one: a reason without a row could not be answered."""
    assert set(TABLE) == set(Reason)


@pytest.mark.parametrize("reason", Reason)
def test_row_keeps_the_rules_of_its_status(reason):
    """401 challenges or is a matter of certificates; 503 says when to come back; nothing answers 2xx or 3xx."""
    row = TABLE[reason]

    assert 400 <= row.status < 600
    if row.status == 401:
        assert row.challenge is not None or reason.value.startswith("certificate-")
    if row.status == 503:
        assert row.retry_after is not None
    if row.fault == "client":
        assert row.status < 500
    assert len(row.title) <= 70
    assert len(row.type) <= 70 or row.type.startswith(IANA)


def test_bad_signature_and_unknown_key_look_alike():
    """RFC 8725: a client cannot tell an unknown key from a bad signature (pitfall 53)."""
    assert TABLE[Reason.TOKEN_SIGNATURE] == TABLE[Reason.TOKEN_KEY_UNKNOWN]
    assert TABLE[Reason.API_KEY_UNKNOWN].type == TABLE[Reason.API_KEY_EXPIRED].type


def test_docs_page_is_in_step():
    """docs/reasons.md is what the table prints; `wardgate reasons` rewrites it."""
    assert (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8") == reasons_page()
