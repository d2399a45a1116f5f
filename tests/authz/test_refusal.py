"""A refusal as an HTTP answer."""

import json

import pytest

from authz.refusal import TPP_MESSAGES, write_refusal
from model.reason import Reason
from model.request import Request
from model.verdict import Deny
from tests.authz.build import judge, request, token


def body(deny, style="problem"):
    return json.loads(write_refusal(deny, Request(id="req-1", path="/a?access_token=SECRET"), style).body)


def test_bad_signature_and_unknown_key_have_the_same_answer():
    """Byte for byte, challenge and all (RFC 8725, pitfall 53)."""
    forged = judge(request(bearer=token(key="ed-2", header={"kid": "ed"})))
    unknown = judge(request(bearer=token(key="ed-2")))

    assert (forged.reason, unknown.reason) == (Reason.TOKEN_SIGNATURE, Reason.TOKEN_KEY_UNKNOWN)
    assert write_refusal(forged, Request()) == write_refusal(unknown, Request())


def test_document_tells_the_detail_and_the_extensions_of_the_refusal():
    """What the step knew stands in the document."""
    said = body(Deny(Reason.SCOPE_MISSING, "It lacks x.", extensions={"required_scopes": ["x"]}))

    assert (said["detail"], said["required_scopes"], said["code"]) == ("It lacks x.", ["x"], "SERVICE_BLOCKED")


def test_secrets_of_the_path_stand_nowhere():
    """No `instance` member quotes a query (bug report H-15)."""
    for reason in Reason:
        refusal = write_refusal(Deny(reason), Request(id="r", path="/a?access_token=SECRET"))
        assert "SECRET" not in refusal.body + str(refusal.headers)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (Reason.CERTIFICATE_EXPIRED, "CERTIFICATE_EXPIRED"),
        (Reason.TOKEN_EXPIRED, "TOKEN_EXPIRED"),
        (Reason.PSD2_ROLE_MISSING, "ROLE_INVALID"),
        (Reason.ROLE_MISSING, "SERVICE_BLOCKED"),
        (Reason.ROUTE_UNKNOWN, "RESOURCE_UNKNOWN"),
        (Reason.INTERNAL, "INTERNAL_SERVER_ERROR"),
        (Reason.LIMITER_UNAVAILABLE, "INTERNAL_SERVER_ERROR"),
        (Reason.HEADER_REPEATED, "FORMAT_ERROR"),
    ],
)
def test_messages_of_berlin_group_carry_its_codes(reason, code):
    """The code of the table, else one for the status."""
    assert body(Deny(reason), TPP_MESSAGES)["tppMessages"][0]["code"] == code


def test_text_of_a_message_is_at_most_500_characters():
    """NextGenPSD2 section 4.13.1."""
    assert len(body(Deny(Reason.SCOPE_MISSING, "x" * 900), TPP_MESSAGES)["tppMessages"][0]["text"]) == 500
