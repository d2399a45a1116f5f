"""The qcStatements extension: ETSI EN 319 412-5 and TS 119 495 in strict DER."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.der import enclose
from authz.organisation import judge_authority, read_roles
from authz.statements import ROLES, TYPES, Statements, read_statements, write_statements
from model.reason import Reason
from model.verdict import Deny

COMPLIANCE = bytes.fromhex("3008060604008e460101")
WEB = bytes.fromhex("3013060604008e4601063009060704008e46010603")
ESEAL = bytes.fromhex("3013060604008e4601063009060704008e46010602")
SYNTAX_V2 = bytes.fromhex("301506082b06010505070b023009060704008bec490102")
"""SemanticsInformation with the legal person OID, as most real PSD2 certificates have it."""


def tlv(tag, content):
    body = enclose(content)
    return bytes((tag,)) + body[1:]


def oid(dotted):
    first, second, *rest = (int(part) for part in dotted.split("."))
    encoded = bytearray([first * 40 + second])
    for part in rest:
        groups = [part & 0x7F]
        while part := part >> 7:
            groups.insert(0, part & 0x7F | 0x80)
        encoded += bytes(groups)
    return tlv(0x06, bytes(encoded))


def text(value, tag=0x0C):
    return tlv(tag, value if isinstance(value, bytes) else value.encode())


def role(number, name, tag=0x0C):
    return tlv(0x30, oid(f"0.4.0.19495.1.{number}") + text(name, tag))


def psd2(*roles, name=None, authority=None):
    info = tlv(0x30, b"".join(roles)) + (name or text("BaFin")) + (authority or text("DE-BAFIN"))
    return tlv(0x30, oid("0.4.0.19495.2") + tlv(0x30, info))


AI = role(3, "PSP_AI")


def refusal(der):
    verdict = read_statements(der)
    return verdict.reason if isinstance(verdict, Deny) else None


def roles_of(*roles):
    statements = read_statements(enclose(psd2(*roles)))
    assert isinstance(statements, Statements)
    return read_roles(statements.psd2)


def test_statements_may_stand_in_any_order():
    """The PSD2 statement is last in many certificates and first in some; unknown statements are ignored."""
    parts = [COMPLIANCE, WEB, SYNTAX_V2, psd2(AI)]
    for order in (parts, parts[::-1], parts[2:] + parts[:2]):
        statements = read_statements(enclose(b"".join(order)))
        assert statements.compliance
        assert [TYPES[each] for each in statements.types] == ["web"]
        assert read_roles(statements.psd2) == {"PSP_AI"}


def test_what_is_written_is_read_back():
    """The encoder makes what the decoder takes, for every set of roles."""
    statements = read_statements(write_statements(["PSP_AS", "PSP_IC"], "Banca d'Italia", "IT-BI", "eseal"))
    assert statements.compliance
    assert [TYPES[each] for each in statements.types] == ["eseal"]
    assert read_roles(statements.psd2) == {"PSP_AS", "PSP_IC"}
    assert (statements.psd2.authority_name, statements.psd2.authority_id) == ("Banca d'Italia", "IT-BI")


@pytest.mark.parametrize(
    "der",
    [
        b"",
        b"\x30",
        b"\x05\x00",
        psd2(AI),  # one bare QCStatement, as in a well-known sample certificate
        enclose(psd2(AI)) + b"\x00",
        b"\x30\x80" + psd2(AI) + b"\x00\x00",
        b"\x30\x81" + enclose(COMPLIANCE)[1:],
        enclose(psd2(AI) + psd2(AI)),
        enclose(WEB + WEB),
        enclose(WEB + ESEAL),
        enclose(psd2()[:-1]),
        enclose(tlv(0x30, oid("0.4.0.19495.2"))),
        enclose(tlv(0x30, oid("0.4.0.1862.1.6"))),
        enclose(tlv(0x30, oid("0.4.0.19495.2") + tlv(0x30, b""))),
        enclose(psd2(AI, name=text("BaFin", 0x13))),
        enclose(psd2(AI, name=text("BaFin", 0x16))),
        enclose(psd2(AI, name=text(""))),
        enclose(psd2(AI, name=text("x" * 257))),
        enclose(psd2(AI, name=text(b"\xff\xfe"))),
        enclose(psd2(AI, authority=text("DE-BAFIN", 0x13))),
        enclose(psd2(AI, authority=text(""))),
        enclose(psd2(role(3, "PSP_AI", 0x13))),
        enclose(psd2(role(3, ""))),
        enclose(psd2(tlv(0x30, oid("0.4.0.19495.1.3")))),
        enclose(psd2(tlv(0x30, text("0.4.0.19495.1.3") + text("PSP_AI")))),
        enclose(psd2(tlv(0x30, oid("0.4.0.19495.1.3") + b"\x05\x00"))),
        enclose(psd2(tlv(0x30, oid("0.4.0.19495.1.3") + text("PSP_AI") + b"\x05\x00"))),
        enclose(tlv(0x31, oid("0.4.0.1862.1.1"))),
    ],
)
def test_anything_but_the_prescribed_der_is_malformed(der):
    """Definite minimal lengths, nothing after an element, UTF8String only, one PSD2 statement, one QcType."""
    assert refusal(der) is Reason.CERTIFICATE_STATEMENTS_MALFORMED


def test_an_empty_role_list_names_no_role():
    """C-01 (c): well-formed, and a reason of its own."""
    assert roles_of().reason is Reason.CERTIFICATE_ROLES_MISSING


def test_a_role_is_its_oid_and_a_text_of_another_role_is_refused():
    """C-01 (b), pitfall 33: OID PSP_PI with the text PSP_AI."""
    assert roles_of(role(2, "PSP_AI")).reason is Reason.CERTIFICATE_ROLE_MISMATCH
    assert roles_of(role(3, "psp_ai")).reason is Reason.CERTIFICATE_ROLE_MISMATCH


def test_an_unknown_extra_role_is_ignored_and_alone_it_is_none():
    """C-01 (d): a role that a later edition adds must lock nobody out."""
    assert roles_of(role(9, "PSP_XX"), AI) == {"PSP_AI"}
    assert roles_of(role(9, "PSP_AI")).reason is Reason.CERTIFICATE_ROLES_MISSING


def test_the_same_role_twice_is_harmless():
    """zlint passes such a certificate too."""
    assert roles_of(AI, AI) == {"PSP_AI"}


def test_unspecified_stands_alone():
    """GEN-5.2.2-1: one or more roles, or a single Unspecified entry."""
    assert roles_of(role(0, "Unspecified")) == {"Unspecified"}
    assert roles_of(role(0, "Unspecified"), AI).reason is Reason.CERTIFICATE_ROLE_MISMATCH
    assert roles_of(role(0, "unspecified")).reason is Reason.CERTIFICATE_ROLE_MISMATCH


@pytest.mark.parametrize(
    "authority", ["BE", "ESBE", "es-BE", "ES-B", "ES-ABCDEFGHI", "ES-be", "ES-B3", "E\u0405-BE", "ES-BE "]
)
def test_an_authority_id_without_country_and_letters_is_refused(authority):
    """C-01 (a): "BE" in place of "ES-BE" has a reason of its own."""
    statements = read_statements(enclose(psd2(AI, authority=text(authority))))
    assert judge_authority(statements.psd2).reason is Reason.CERTIFICATE_AUTHORITY_ID


def test_a_control_character_in_the_authority_is_refused():
    """Pitfall 29: a NUL would cut the name short in whatever compares it."""
    statements = read_statements(enclose(psd2(AI, name=text("BaFin\x00evil"))))
    assert judge_authority(statements.psd2).reason is Reason.CERTIFICATE_AUTHORITY_ID


@settings(deadline=None)  # a shared machine pauses when it likes
@given(
    st.sets(st.sampled_from(sorted(ROLES.values())), min_size=1),
    st.text(min_size=1, max_size=256),
    st.text(min_size=1, max_size=256),
)
def test_every_writable_statement_is_readable(roles, name, authority):
    """Writing and reading are inverse for any text of 1 to 256 characters."""
    try:
        der = write_statements(sorted(roles), name, authority)
    except (ValueError, UnicodeEncodeError):
        return  # a lone surrogate has no UTF-8
    statements = read_statements(der)
    assert [role.name for role in statements.psd2.roles] == sorted(roles)
    assert (statements.psd2.authority_name, statements.psd2.authority_id) == (name, authority)


@settings(deadline=None)  # a shared machine pauses when it likes
@given(st.data())
def test_no_mutation_of_the_der_raises(data):
    """Whatever bytes stand in the extension, the answer is statements or a reason."""
    der = bytearray(write_statements(["PSP_AI", "PSP_PI"], "BaFin", "DE-BAFIN"))
    for _ in range(data.draw(st.integers(1, 6))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    verdict = read_statements(bytes(der))
    if isinstance(verdict, Statements) and verdict.psd2 is not None:
        assert isinstance(read_roles(verdict.psd2), frozenset | Deny)
