"""The development PKI is what the gateway's strictest profile accepts, and nothing else is."""

import time
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from authz.certificate import judge_certificate, open_trust, read_peer
from demo.pki import AUTHORITIES, CERTIFICATES, PARTNERS, ensure_pki
from model.reason import Reason
from model.snapshot import CertificateProfile
from model.verdict import Deny


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "pki"
    assert ensure_pki(folder)
    return folder


def judge(pki, name):
    anchors = x509.load_pem_x509_certificates((pki / "trust.pem").read_bytes())
    texts = tuple(anchor.public_bytes(Encoding.PEM).decode() for anchor in anchors)
    trust = open_trust(CertificateProfile("qwac-psd2", texts))
    leaf = x509.load_pem_x509_certificate((pki / f"{name}.pem").read_bytes())
    peer = read_peer(quote(leaf.public_bytes(Encoding.PEM)))
    return judge_certificate(peer, trust, time.time_ns())


@pytest.mark.parametrize("partner", PARTNERS, ids=lambda partner: partner.name)
def test_every_partner_certificate_is_a_psd2_qwac_with_its_roles(pki, partner):
    identity = judge(pki, partner.name)
    assert (partner.organisation, frozenset(partner.roles)) == (identity.organisation, identity.psd2_roles)


def test_the_same_certificate_of_an_unknown_ca_is_refused(pki):
    verdict = judge(pki, "stranger")
    assert isinstance(verdict, Deny)
    assert verdict.reason == Reason.CERTIFICATE_UNTRUSTED


def test_a_valid_pki_is_kept_as_it_is(pki):
    before = (pki / "root.pem").read_bytes()
    assert not ensure_pki(pki)
    assert before == (pki / "root.pem").read_bytes()


@pytest.mark.parametrize("damage", ["missing", "garbage"])
def test_a_damaged_pki_is_replaced_as_a_whole(tmp_path, damage):
    folder = tmp_path / "pki"
    ensure_pki(folder)
    before = (folder / "root.pem").read_bytes()
    if damage == "missing":
        (folder / "gateway.key").unlink()
    else:
        (folder / "ledger.pem").write_text("not a certificate")
    assert ensure_pki(folder)
    assert before != (folder / "root.pem").read_bytes()
    assert [folder] == list(tmp_path.iterdir())


def test_private_keys_are_for_their_owner_alone_unless_shared(tmp_path):
    ensure_pki(tmp_path / "own")
    ensure_pki(tmp_path / "shared", shared=True)
    assert {0o600} == {path.stat().st_mode & 0o777 for path in (tmp_path / "own").glob("*.key")}
    assert {0o644} == {path.stat().st_mode & 0o777 for path in (tmp_path / "shared").glob("*.key")}


def test_no_authority_leaves_its_key_behind(pki):
    assert not [name for name in AUTHORITIES if (pki / f"{name}.key").exists()]


def test_every_leaf_is_issued_directly_by_the_authority_above_it(pki):
    above = {"server": "edge-ca", "idp": "edge-ca", "ledger": "mesh-ca", "payments": "mesh-ca", "gateway": "mesh-ca"}
    for name in set(CERTIFICATES) - set(AUTHORITIES):
        leaf = x509.load_pem_x509_certificate((pki / f"{name}.pem").read_bytes())
        issuer = above.get(name, "stranger-ca" if name == "stranger" else "issuing")
        leaf.verify_directly_issued_by(x509.load_pem_x509_certificate((pki / f"{issuer}.pem").read_bytes()))
