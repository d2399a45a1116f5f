from authz.certificate import judge_certificate, open_trust, read_peer
from authz.profile import Identity
from tests.authz import pki


def judged(*presented, trust, now=pki.NOW, status=None):
    peer = read_peer(pki.encoded(*presented))
    return judge_certificate(peer, trust, now, status)


def test_a_qwac_of_a_listed_issuer_is_an_identity():
    root = pki.authority()
    leaf = pki.qwac(root, roles=("PSP_AI", "PSP_PI"))
    identity = judged(leaf, trust=open_trust(pki.profile_of(root)))
    assert isinstance(identity, Identity)
    assert identity.organisation == "PSDDE-BAFIN-123456"
    assert identity.psd2_roles == {"PSP_AI", "PSP_PI"}
    assert identity.authority == "DE-BAFIN"
    assert identity.authority_name == pki.AUTHORITY_NAME
    assert identity.common_name == "partner.example"
    assert identity.issuer == "CN=Test Root"
    assert identity.serial == format(leaf.certificate.serial_number, "x")
    assert len(identity.thumbprint) == 43
