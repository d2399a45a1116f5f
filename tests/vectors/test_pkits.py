"""NIST PKITS: path validation and CRLs, from the files that cryptography-vectors carries.

Each end entity's name says whether its path is valid under the default settings; where it does not, the PKITS document
does and UNNAMED repeats it.
"""

from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path as File

import pytest

from authz.chain import Path, build_path
from authz.crl import StatusInvalid, read_crl
from authz.parsed import Unparsable, parse_certificate
from authz.status import Revocations
from model.instant import SECOND
from tests.vectors.figures import record

vectors = pytest.importorskip("cryptography_vectors", reason="left out: PKITS (install cryptography-vectors)")

DATA = File(vectors.__file__).parent / "x509" / "PKITS_data"
NOW = int(datetime(2026, 11, 30, tzinfo=UTC).timestamp()) * SECOND

UNNAMED_INVALID = {f"DifferentPoliciesTest{number}EE" for number in (4, 5, 7, 8, 9, 12)}
"""Without Valid or Invalid in their names, and invalid as PKITS sections 4.8.4 to 4.8.12 say; the rest is valid."""

DSA = "DSA keys are not accepted: a signature over SHA-1 with 1024 bits"
INDIRECT = "indirect CRLs are refused: the issuer of a certificate speaks for it, nobody else"
EXCEPTIONS = {
    "ValidDSASignaturesTest4EE": DSA,
    "ValidDSAParameterInheritanceTest5EE": DSA,
    "ValidIDPwithindirectCRLTest22EE": INDIRECT,
    "ValidIDPwithindirectCRLTest24EE": INDIRECT,
    "ValidIDPwithindirectCRLTest25EE": INDIRECT,
    "ValidcRLIssuerTest28EE": INDIRECT,
    "ValidcRLIssuerTest29EE": INDIRECT,
    "ValidcRLIssuerTest30EE": INDIRECT,
    "ValidcRLIssuerTest33EE": INDIRECT,
}
"""Valid paths that are refused. There is no exception the other way."""


@cache
def certificates():
    """All certificates by file name; None for those that cannot be read."""
    found = {}
    for path in sorted((DATA / "certs").glob("*.crt")):
        try:
            found[path.stem] = parse_certificate(path.read_bytes())
        except Unparsable:
            found[path.stem] = None
    return found


def authorities():
    return [each for name, each in certificates().items() if each and not name.endswith("EE")]


def path_of(certificate):
    return build_path(certificate, authorities(), [certificates()["TrustAnchorRootCertificate"]], NOW)


@cache
def book():
    """Every CRL that one of the authorities signed whose own path holds and was not revoked; the root's come first."""
    found = Revocations()
    root = certificates()["TrustAnchorRootCertificate"]
    put(found, "TrustAnchorRootCRL.crl", [root])
    paths = [path for each in authorities() if isinstance(path := path_of(each), Path)]
    signers = [
        root,
        *(path.certificates[0] for path in paths if found.judge(path.certificates, NOW, hard=False) is None),
    ]
    for path in sorted((DATA / "crls").glob("*.crl")):
        put(found, path.name, signers)
    return found


def put(found, name, signers):
    with suppress(StatusInvalid):
        found.put_crl(name, read_crl((DATA / "crls" / name).read_bytes(), signers))


def accepted(certificate):
    if certificate is None:
        return False
    path = path_of(certificate)
    if not isinstance(path, Path) or book().judge(path.certificates, NOW, hard=True) is not None:
        return False
    return certificate.unknown == ()


def test_every_path_of_pkits_is_judged_as_its_name_says_but_for_the_named_exceptions():
    """223 end entities: signatures, dates, names, CRLs, key usage, path lengths, policies, name constraints, deltas."""
    ends = {name: each for name, each in certificates().items() if name.endswith("EE")}
    wrong = {
        name for name, each in ends.items() if accepted(each) == (name.startswith("Invalid") or name in UNNAMED_INVALID)
    }
    record("pkits", len(ends), len(ends) - len(wrong))
    assert len(ends) == 223
    assert wrong == EXCEPTIONS.keys()
