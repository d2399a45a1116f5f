"""zlint's own expectations of its PSD2 certificates, each lint held against the judgement that answers it here."""

import csv
from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from authz.organisation import LISTED_AUTHORITIES, judge_authority, judge_organisation, read_roles
from authz.parsed import Unparsable, parse_certificate
from authz.profile import judge_policies
from authz.statements import read_statements
from model.snapshot import CertificateProfile
from model.verdict import Deny
from tests.vectors.figures import need, record

SCHEMES = ("PSD", "NTR", "VAT", "LEI")
LENIENT = "the lint leaves this to e_qcstatem_psd2_vat_ntr, which calls it an error; here one judgement refuses it"
NO_LEI = "LEIXG-1234-1234 has not the 20 characters of an LEI (ISO 17442)"
NO_WEB = "a policy of seals or signatures, right for this certificate, which is refused as no website certificate"
EXCEPTIONS = {
    ("e_qcstatem_psd2_national_scheme", "QcStmtPsd2Cert49ValidNationalScheme.pem"): (
        "national schemes carry no authorisation number, no profile accepts them"
    ),
    ("e_qcstatem_psd2_orgid", "QcStmtPsd2Cert41ValidLei.pem"): NO_LEI,
    ("e_qcstatem_psd2_vat_ntr", "QcStmtPsd2Cert41ValidLei.pem"): NO_LEI,
    ("e_qcstatem_psd2_orgid", "QcStmtPsd2Cert42OrgIdInvalid.pem"): LENIENT,
    ("e_qcstatem_psd2_orgid", "QcStmtPsd2Cert43LeiNotXg.pem"): LENIENT,
    ("e_qcstatem_psd2_orgid", "QcStmtPsd2Cert46InvalidOrgIdNtr.pem"): LENIENT,
    ("w_qcstatem_psd2_policy_recommended", "QcStmtPsd2Cert93ValidEsealPolicyConsistent.pem"): NO_WEB,
    ("w_qcstatem_psd2_policy_recommended", "QcStmtPsd2Cert104ValidEsignQcSSCD.pem"): NO_WEB,
}


@cache
def leaf_of(name):
    pem = need("zlint-psd2", "pem", name).read_bytes()
    return parse_certificate(x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER))


def refused(*verdicts):
    return any(isinstance(verdict, Deny) for verdict in verdicts)


def judge_encoding(leaf, statements):
    return "Error" if refused(statements) else "Pass"


def judge_roles(leaf, statements):
    return "Error" if refused(statements) or refused(read_roles(statements.psd2)) else "Pass"


def judge_format(leaf, statements):
    return "Error" if refused(statements) or refused(judge_authority(statements.psd2)) else "Pass"


def judge_listed(leaf, statements):
    return "Pass" if not refused(statements) and statements.psd2.authority_id in LISTED_AUTHORITIES else "Warn"


def judge_identifier(leaf, statements):
    """The identifier by itself: an authority that it names is the right one."""
    authority = "-".join(leaf.organisations[0].removeprefix("PSD").split("-")[:2]) if leaf.organisations else ""
    return "Error" if refused(judge_organisation(leaf.organisations, authority, SCHEMES)) else "Pass"


def judge_agreement(leaf, statements):
    if not leaf.organisations or not leaf.organisations[0].startswith("PSD"):
        return "NA"
    return "Error" if refused(statements) or disagrees(leaf, statements) else "Pass"


def disagrees(leaf, statements):
    return refused(judge_organisation(leaf.organisations, statements.psd2.authority_id, SCHEMES))


def judge_registration(leaf, statements):
    return judge_identifier(leaf, statements) if leaf.organisations[0][:3] in SCHEMES[1:] else "NA"


def judge_national(leaf, statements):
    return judge_identifier(leaf, statements) if leaf.organisations[0][2:3] == ":" else "NA"


def judge_valid(leaf, statements):
    return "Error" if "Error" in (judge_roles(leaf, statements), judge_format(leaf, statements)) else "Pass"


LINTS = {
    "e_qcstatem_psd2_national_scheme": judge_national,
    "e_qcstatem_psd2_orgid": judge_identifier,
    "e_qcstatem_psd2_psd": judge_agreement,
    "e_qcstatem_psd2_psd2statem_encoding": judge_encoding,
    "e_qcstatem_psd2_psd2statem_ncaid_format": judge_format,
    "e_qcstatem_psd2_roles": judge_roles,
    "e_qcstatem_psd2_valid": judge_valid,
    "e_qcstatem_psd2_vat_ntr": judge_registration,
    "w_qcstatem_psd2_psd2statem_ncaid_eulist": judge_listed,
}


def judged(lint, name):
    leaf = leaf_of(name)
    if leaf.statements is None:
        return "NA"
    if lint == "w_qcstatem_psd2_policy_recommended":
        return "Warn" if judge_policies(leaf, CertificateProfile("qwac-psd2", ())) else "Pass"
    statements = read_statements(leaf.statements)
    if not refused(statements) and statements.psd2 is None:
        return "NA"
    return LINTS[lint](leaf, statements)


@pytest.mark.vectors
def test_every_expectation_of_zlint_holds_but_for_the_named_exceptions():
    """All 226 rows (lint, certificate, result) of zlint's pull requests, with the exceptions exactly those listed."""
    with need("zlint-psd2", "EXPECTED.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    others = {
        (row["lint"], row["file"]): (row["expected"], judged(row["lint"], row["file"]))
        for row in rows
        if judged(row["lint"], row["file"]) != row["expected"]
    }
    record("zlint_psd2", len(rows), len(rows) - len(others))
    assert len(rows) == 226
    assert others.keys() == EXCEPTIONS.keys()


@pytest.mark.vectors
def test_every_certificate_of_zlint_is_read_or_named_unparsable():
    """122 certificates, most of them wrong: one has a subject whose string type X.520 does not know."""
    unparsable = []
    for path in sorted(need("zlint-psd2", "pem").glob("*.pem")):
        try:
            leaf_of(path.name)
        except Unparsable:
            unparsable.append(path.name)
    assert unparsable == ["EvAltRegNumCert66OrgIdInvalidStringType.pem"]
