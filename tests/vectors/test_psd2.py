"""The PSD2 encodings of creditkudos/eidas: read, and written again byte for byte."""

import pytest

from authz.organisation import read_roles
from authz.statements import TYPES, read_statements, write_statements
from tests.vectors.figures import load, record


@pytest.mark.vectors
def test_every_role_combination_is_read_and_written_byte_for_byte():
    """Each DER decodes to its listed roles and authority, and encoding those gives the same bytes."""
    cases = load("creditkudos-eidas", "qcstatements.json")["cases"]
    exact = 0
    for case in cases:
        statements = read_statements(bytes.fromhex(case["der_hex"]))
        roles = [role.name for role in statements.psd2.roles]
        assert [TYPES[each] for each in statements.types] == [case["qc_type"]]
        assert roles == case["roles"]
        assert read_roles(statements.psd2) == set(case["roles"])
        assert statements.psd2.authority_id == case["nca_id"]
        assert statements.psd2.authority_name == case["nca_name"]
        assert not statements.compliance
        again = write_statements(roles, case["nca_name"], case["nca_id"], case["qc_type"], compliance=False)
        exact += again.hex() == case["der_hex"]
    record("psd2_encodings", len(cases), exact)
    assert exact == len(cases) == 16
