"""A differential run against pkilint: random certificates, right and wrong, judged by both."""

import itertools
import random

import pytest

from authz.certificate import Identity, judge_certificate, open_trust, read_peer
from model.reason import Reason
from tests.authz import pki
from tests.authz.test_statements import AI, COMPLIANCE, ESEAL, WEB, enclose, oid, psd2, role, text, tlv
from tests.vectors.figures import record

etsi = pytest.importorskip("pkilint.etsi", reason="left out: the differential run (install pkilint)")

COUNT = 300
RULES = ("etsi.ts_119_495.", "etsi.en_319_412_5.", "itu.")
"""What both judge: the statements. What else a certificate of the browsers' kind must have is not asked for here."""

LENIENT = {
    "etsi.ts_119_495.gen-5.2-2.invalid_psp_oid": "an unknown role beside a known one is ignored (C-01 d)",
    "etsi.ts_119_495.gen-5.2.3-2.invalid_iso_country": "which countries there are is left to the issuer",
}
STRICT = {
    Reason.CERTIFICATE_STATEMENTS_MALFORMED: "pkilint lets a statement stand twice",
    Reason.CERTIFICATE_TYPE: "pkilint misses a second purpose in QcType in some orders of the statements",
    Reason.CERTIFICATE_ROLE_MISMATCH: "pkilint lets Unspecified stand beside a role",
    Reason.CERTIFICATE_ORGANISATION_ID: "pkilint does not hold the identifier against the NCAId, nor count it",
    Reason.CERTIFICATE_STATEMENTS_MISSING: "pkilint asks for the extension under another rule",
}

TWO_TYPES = tlv(0x30, oid("0.4.0.1862.1.6") + tlv(0x30, oid("0.4.0.1862.1.6.2") + oid("0.4.0.1862.1.6.3")))
AUTHORITIES = ["DE-BAFIN"] * 6 + ["ES-BE", "ZZ-ABC", "BE", "DE-bafin", "DE-BAFINBAFI", "D1-BAFIN", ""]
ROLES = [
    *[[AI]] * 4,
    [AI, AI],
    [role(2, "PSP_PI"), role(4, "PSP_IC")],
    [role(0, "Unspecified")],
    [role(0, "Unspecified"), AI],
    [role(9, "PSP_XX"), AI],
    [role(9, "PSP_XX")],
    [role(2, "PSP_AI")],
    [role(3, "PSP_AI", 0x13)],
    [],
]
TYPES = [*[WEB] * 6, ESEAL, TWO_TYPES, b"", WEB + WEB]
ORGANISATIONS = [
    *[("PSDDE-BAFIN-123456",)] * 5,
    (),
    ("PSDDE-BAFIN-1", "PSDDE-BAFIN-1"),
    ("VATDE-123",),
    ("psdde-bafin-1",),
    ("PSDZZ-ABC-1",),
    ("PSDDE-BAFIN-1 ",),
]


def certificate_of(draw, root):
    """One certificate, about a third of them right."""
    authority = draw.choice(AUTHORITIES)
    name = draw.choice([text("BaFin")] * 8 + [text(""), text("BaFin", 0x13)])
    statement = psd2(*draw.choice(ROLES), name=name, authority=text(authority))
    parts = [
        draw.choice([COMPLIANCE] * 6 + [b""]),
        draw.choice(TYPES),
        draw.choice([statement] * 8 + [b"", statement * 2]),
    ]
    draw.shuffle(parts)
    statements = enclose(b"".join(parts)) + draw.choice([b""] * 9 + [b"\x00"])
    critical = draw.random() < 0.05
    return pki.qwac(root, statements=statements, organisations=draw.choice(ORGANISATIONS), critical=critical)


def linter():
    from pkilint import loader
    from pkilint.etsi.etsi_constants import CertificateType
    from pkilint.pkix import certificate
    from pkilint.validation import ValidationFindingSeverity

    kind = CertificateType.QEVCP_W_PSD2_EIDAS_NON_BROWSER_FINAL_CERTIFICATE
    container = certificate.create_pkix_certificate_validator_container(
        etsi.create_decoding_validators(kind), etsi.create_validators(kind)
    )

    def lint(der):
        results = container.validate(loader.load_certificate(der, "generated").root)
        found = itertools.chain.from_iterable(result.finding_descriptions for result in results)
        return {
            each.finding.code
            for each in found
            if each.finding.severity >= ValidationFindingSeverity.ERROR and each.finding.code.startswith(RULES)
        }

    return lint


def agreed(findings, verdict):
    """Whether both say the same, or differ for one of the reasons above."""
    if isinstance(verdict, Identity):
        return findings <= LENIENT.keys()
    return bool(findings) or verdict.reason in STRICT


def test_generated_certificates_are_judged_as_pkilint_judges_them():
    """Each difference has one of the listed reasons, and both sides accept and refuse a good part."""
    draw, root, lint = random.Random(20261130), pki.authority(), linter()
    trust = open_trust(pki.profile_of(root))
    cases = []
    for _ in range(COUNT):
        leaf = certificate_of(draw, root)
        cases.append((lint(leaf.der), judge_certificate(read_peer(pki.encoded(leaf)), trust, pki.NOW)))
    equal = sum(agreed(*case) for case in cases)
    record("pkilint", COUNT, equal)
    assert equal == COUNT
    assert sum(isinstance(verdict, Identity) for _, verdict in cases) > COUNT / 30
    assert {verdict.reason for _, verdict in cases if not isinstance(verdict, Identity)} >= STRICT.keys()
