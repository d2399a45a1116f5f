"""OCSP responses and CRLs of cryptography-vectors, most of them odd: each is used, or refused for the listed reason."""

from datetime import UTC, datetime
from pathlib import Path as File

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from authz import crl as lists
from authz.crl import ALL_REASONS, StatusInvalid, read_crl
from authz.ocsp import read_response
from authz.parsed import parse_certificate
from model.instant import SECOND
from tests.authz import pki
from tests.vectors.figures import record

vectors = pytest.importorskip("cryptography_vectors", reason="left out: OCSP oddities (install cryptography-vectors)")
FOLDER = File(vectors.__file__).parent / "x509"
IN_2018 = int(datetime(2018, 9, 1, tzinfo=UTC).timestamp()) * SECOND
IN_2026 = pki.NOW

UNREADABLE = "the response cannot be parsed"
STRANGER = "the responder is not authorised by the issuer"
RESPONSES = {
    "ocsp-army.deps.mil-resp.der": STRANGER,
    "resp-delegate-unknown-cert.der": STRANGER,
    "resp-invalid-signature-oid.der": UNREADABLE,
    "resp-invalid-version.der": UNREADABLE,
    "resp-responder-key-hash.der": STRANGER,
    "resp-response-type-unknown-oid.der": UNREADABLE,
    "resp-revoked-no-next-update.der": STRANGER,
    "resp-revoked-reason.der": STRANGER,
    "resp-revoked.der": STRANGER,
    "resp-sct-extension.der": STRANGER,
    "resp-sha256.der": "good",
    "resp-single-extension-reason.der": STRANGER,
    "resp-successful-no-response-bytes.der": UNREADABLE,
    "resp-unauthorized.der": "the responder answers unauthorized",
    "resp-unknown-extension.der": STRANGER,
    "resp-unknown-hash-alg.der": STRANGER,
    "resp-unknown-response-status.der": UNREADABLE,
}
"""As answers about one certificate of Let's Encrypt X3: the right one for it is the only one that is believed."""

BROKEN = "the list cannot be parsed"
REPEATED = "the list has a repeated extension or an unknown kind of name"
INDIRECT = "the list speaks for other issuers"
LISTS = {
    "crl_all_reasons.pem": INDIRECT,
    "crl_almost_10k.pem": "past its time",
    "crl_bad_version.pem": REPEATED,
    "crl_delta_crl_indicator.pem": "a delta",
    "crl_dup_entry_ext.pem": REPEATED,
    "crl_empty.pem": "past its time",
    "crl_empty_no_sequence.der": "answers",
    "crl_ian_aia_aki.pem": "past its time",
    "crl_idp_fullname_indirect_crl.pem": INDIRECT,
    "crl_idp_fullname_only.pem": "of another point",
    "crl_idp_fullname_only_aa.pem": "of another point",
    "crl_idp_fullname_only_user.pem": "of another point",
    "crl_idp_only_ca.pem": "of another point",
    "crl_idp_reasons_only.pem": "of some reasons",
    "crl_idp_relative_user_all_reasons.pem": "of another point",
    "crl_idp_relativename_only.pem": "of another point",
    "crl_inner_outer_mismatch.der": BROKEN,
    "crl_inval_cert_issuer_entry_ext.pem": BROKEN,
    "crl_inval_date_fractional_seconds.der": BROKEN,
    "crl_invalid_time.der": BROKEN,
    "crl_issuer_invalid_printable_string.der": BROKEN,
    "crl_md2_unknown_crit_entry_ext.pem": "an entry of the list has a critical extension that is not understood",
    "crl_no_next_update.pem": "past its time",
    "crl_unrecognized_extension.der": "answers",
    "crl_unsupported_reason.pem": BROKEN,
}
"""As lists about a leaf without distribution points, were their issuers listed ones."""


def under(issuer, serial):
    """A certificate that names `issuer` and has this serial number; its signature is not what is judged here."""
    stand_in = pki.Issued(issuer.certificate, pki.key())
    return parse_certificate(pki.issue(pki.name_of("leaf"), stand_in, serial=serial).der)


def answer_of(path, certificate, issuer, now):
    try:
        return "revoked" if read_response(path.read_bytes(), certificate, issuer, now).revoked else "good"
    except StatusInvalid as error:
        return str(error)


def use_of(path, leaf):
    try:
        found = read_crl(path.read_bytes(), ())
    except StatusInvalid as error:
        return str(error)
    if found.base is not None:
        return "a delta"
    if not found.scope.covers(leaf):
        return "of another point"
    if found.scope.reasons != ALL_REASONS:
        return "of some reasons"
    return "answers" if found.fresh(IN_2026) else "past its time"


def lets_encrypt():
    pem = (FOLDER / "letsencryptx3.pem").read_bytes()
    return parse_certificate(x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER))


def test_every_odd_response_is_refused_and_the_right_one_believed():
    """17 responses as answers about one certificate."""
    issuer = lets_encrypt()
    certificate = under(issuer, 0x31C787A7DC90295007BC5F2220B3B527AF0)
    found = {
        path.name: answer_of(path, certificate, issuer, IN_2018)
        for path in sorted((FOLDER / "ocsp").glob("*resp*.der"))
    }
    found.pop("req-acceptable-responses.der")  # a request
    record("ocsp", len(RESPONSES), sum(found.get(name) == expected for name, expected in RESPONSES.items()))
    assert found == RESPONSES


def test_the_right_response_is_refused_outside_its_window_and_for_another_certificate():
    """The window and the serial number of a real response are held to the second and the number."""
    issuer = lets_encrypt()
    path = FOLDER / "ocsp" / "resp-sha256.der"
    own = under(issuer, 0x31C787A7DC90295007BC5F2220B3B527AF0)
    end = int(datetime(2018, 9, 6, 11, tzinfo=UTC).timestamp()) * SECOND
    assert answer_of(path, own, issuer, end) == "good"
    assert answer_of(path, own, issuer, end + 1) == "the response is not in force"
    assert answer_of(path, under(issuer, 5), issuer, IN_2018) == "the response is about another certificate"


def test_every_odd_list_is_used_for_what_it_says_or_refused(monkeypatch):
    """25 lists, read as if one of the listed issuers had signed them."""
    issuer = lets_encrypt()
    monkeypatch.setattr(lists, "_signer", lambda _crl, _issuers: issuer)
    leaf = under(issuer, 5)
    found = {path.name: use_of(path, leaf) for path in sorted((FOLDER / "custom").glob("crl_*"))}
    record("crl", len(LISTS), sum(found.get(name) == expected for name, expected in LISTS.items()))
    assert found == LISTS


@pytest.mark.parametrize("name", sorted(LISTS))
def test_no_odd_list_is_believed_from_a_stranger(name):
    """A list counts only by the signature of an issuer that is trusted already."""
    with pytest.raises(StatusInvalid):
        read_crl((FOLDER / "custom" / name).read_bytes(), [lets_encrypt()])
