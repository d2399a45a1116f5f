"""API keys: looked up by a public prefix, compared by hash, never held in clear.

A key reads `<id>.<secret>`. The id finds the record, the SHA-256 of the whole key decides. The secret is drawn from 256
random bits (`wardgate key`), so a fast hash is enough: there is no dictionary to try. Rotation is two records of one
client whose validity overlaps.
"""

import hashlib
import hmac

from authz.keyrecord import ID_LIMIT, KeyRecord
from authz.keytable import KeyTable
from model.instant import Instant
from model.reason import Reason
from model.verdict import Deny

KEY_LIMIT = 256
# What an unknown id is compared with, so that it takes the time of a known one.
_NOBODY = hashlib.sha256(b"nobody").hexdigest()


def judge_key(text: str, table: KeyTable, now: Instant) -> KeyRecord | Deny:
    """Judge a presented key.

    The same refusal for an unknown id and for a wrong secret, after the same work: neither can be told from the
    other. Validity counts only once the secret held.
    """
    if len(text) > KEY_LIMIT or not text.isascii():
        return Deny(Reason.API_KEY_UNKNOWN)
    key_id, dot, _ = text.partition(".")
    record = table.find(key_id) if dot and len(key_id) <= ID_LIMIT else None
    expected = _NOBODY if record is None else record.sha256
    matches = hmac.compare_digest(hash_key(text), expected)
    if record is None or not matches:
        return Deny(Reason.API_KEY_UNKNOWN)
    return record if valid_now(record, now) else Deny(Reason.API_KEY_EXPIRED)


def valid_now(record: KeyRecord, now: Instant) -> bool:
    """Whether the record holds at this instant; its end is exclusive, as the `exp` of a token is."""
    if record.not_before is not None and now < record.not_before:
        return False
    return record.not_after is None or now < record.not_after


def hash_key(text: str) -> str:
    """Hash a whole key as key files hold it: SHA-256, lower-case hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
