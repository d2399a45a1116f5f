"""organizationIdentifier: ETSI EN 319 412-1 section 5.1.4, TS 119 495 section 5.2.1."""

import pytest

from authz.organisation import judge_organisation
from model.reason import Reason
from model.verdict import Deny

ALL = ("PSD", "NTR", "VAT", "LEI")


@pytest.mark.parametrize(
    ("identifier", "authority"),
    [
        ("PSDDE-BAFIN-123456", "DE-BAFIN"),
        ("PSDES-BDE-3DFD21", "ES-BDE"),
        ("PSDFR-ACPR-1-2", "FR-ACPR"),
        ("PSDMT-MFSA-A 12345", "MT-MFSA"),
        ("PSDBE-NBB-1234.567.890", "BE-NBB"),
        ("PSDFI-FINFSA-1234567-8", "FI-FINFSA"),
        ("PSDGB-FCA-795791", "GB-FCA"),
        ("PSDGB-OB-Unknown0015800001041ReAAI", "GB-OB"),
        ("PSDSE-FINA-Åland 1", "SE-FINA"),
    ],
)
def test_everything_after_the_second_dash_is_the_id(identifier, authority):
    """C-12: ids hold dashes, dots and spaces; the look-up key is the exact string."""
    assert judge_organisation([identifier], authority) == identifier


@pytest.mark.parametrize(
    "identifier",
    [
        "",
        "PSDDE-BAFIN-",
        "PSDDE-BAFIN",
        "psdde-bafin-123456",
        "PSDde-BAFIN-123456",
        "PSDDE-BAFIN-123456 ",
        " PSDDE-BAFIN-123456",
        "PSDDE-BAFIN- 123456",
        "PSDDE-BAFIN-1\x00",
        "PSDDE-BAFIN-1\n",
        "PSDDE-BAFIN-1\x85",
        "PSDDE_BAFIN_1",
        "PSDDEU-BAFIN-1",
        "PSDDE-BAFINBAFI-1",
        "PSDDE-B-1",
        "PSDDE-BAFIN-" + "1" * 201,
        "XX:DE-123",
        "ABCDE-12345678",
    ],
)
def test_anything_else_is_no_psd2_identity(identifier):
    """C-12 and pitfall 29: lower case, spaces at the ends, control characters and unknown schemes."""
    verdict = judge_organisation([identifier], "DE-BAFIN", ALL)
    assert isinstance(verdict, Deny)
    assert verdict.reason is Reason.CERTIFICATE_ORGANISATION_ID


@pytest.mark.parametrize("authority", ["DE-BNB", "AT-BAFIN", "DE-BAFI", "DE"])
def test_identifier_and_statement_must_name_the_same_authority(authority):
    """zlint e_qcstatem_psd2_psd: country and authority equal those of the NCAId."""
    assert judge_organisation(["PSDDE-BAFIN-1"], authority).reason is Reason.CERTIFICATE_ORGANISATION_ID


@pytest.mark.parametrize("identifiers", [[], ["PSDDE-BAFIN-1", "PSDDE-BAFIN-1"], ["PSDDE-BAFIN-1", "PSDDE-BAFIN-2"]])
def test_none_and_two_identifiers_are_refused(identifiers):
    """A repeated attribute leaves it to the reader which one counts, so none does."""
    assert judge_organisation(identifiers, "DE-BAFIN").reason is Reason.CERTIFICATE_ORGANISATION_ID


@pytest.mark.parametrize("identifier", ["NTRGB-12345678", "VATDE-123", "VATES-A12345678", "LEIXG-529900T8BM49AURSDO55"])
def test_other_schemes_count_only_where_the_profile_names_them(identifier):
    """C-01 (e), C-12: they carry no authorisation number, so accepting them is a choice of the document."""
    assert judge_organisation([identifier], "DE-BAFIN").reason is Reason.CERTIFICATE_ORGANISATION_ID
    assert judge_organisation([identifier], "DE-BAFIN", ALL) == identifier
    assert isinstance(judge_organisation([identifier], "DE-BAFIN", ("PSD",)), Deny)


@pytest.mark.parametrize("identifier", ["LEIDE-529900T8BM49AURSDO55", "LEIXG-1", "NTRDE+BW-1", "VATD-1"])
def test_other_schemes_have_their_own_grammar(identifier):
    """An LEI is registered under XG; the CA/Browser Forum's state suffix is none of ETSI's."""
    assert isinstance(judge_organisation([identifier], "DE-BAFIN", ALL), Deny)
