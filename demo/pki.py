"""A development PKI: a QTSP that issues PSD2 QWACs, an edge CA, a mesh CA, and a CA that nobody trusts.

Keys are P-256. Certificates of partners carry the qcStatements of ETSI TS 119 495 and a website certificate policy of
ETSI EN 319 411-2, as a real QWAC does, so that the gateway's strict profile accepts them and nothing weaker passes.
"""

import datetime as dt
import ipaddress
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from authz.parsed import QC_STATEMENTS
from authz.statements import write_statements
from demo.settings import EDGE_NAME

QNCP_W = x509.ObjectIdentifier("0.4.0.194112.1.5")  # EN 319 411-2: qualified website certificate, organisation known
QCP_W_PSD2 = x509.ObjectIdentifier("0.4.0.19495.3.1")  # TS 119 495
ORGANISATION_IDENTIFIER = x509.ObjectIdentifier("2.5.4.97")
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH

LIFETIME = dt.timedelta(days=365)
RENEW_BEFORE = dt.timedelta(days=7)
BACKDATED = dt.timedelta(hours=1)  # forgives a clock that lags behind


@dataclass(frozen=True, slots=True)
class Partner:
    """A payment service provider with its QWAC: who it is, who supervises it, which PSD2 roles it holds."""

    name: str
    organisation: str
    country: str
    authority: str
    authority_name: str
    roles: tuple[str, ...]


PARTNERS = (
    Partner(
        "fintech-alpha",
        "PSDDE-BAFIN-100001",
        "DE",
        "DE-BAFIN",
        "Federal Financial Supervisory Authority",
        ("PSP_AI", "PSP_PI"),
    ),
    Partner(
        "fintech-beta",
        "PSDFR-ACPR-100002",
        "FR",
        "FR-ACPR",
        "Prudential Supervision and Resolution Authority",
        ("PSP_AI",),
    ),
    Partner("fintech-gamma", "PSDIE-CBI-100003", "IE", "IE-CBI", "Central Bank of Ireland", ("PSP_PI",)),
)

SERVICES = {
    "server": (EDGE_NAME, "localhost", "envoy", "127.0.0.1"),
    "idp": ("idp", "localhost", "127.0.0.1"),
    "ledger": ("account-ledger", "ledger", "localhost", "127.0.0.1"),
    "payments": ("payment-initiation", "payments", "localhost", "127.0.0.1"),
}
"""Server certificates and their names: those of PUBLIC come from the edge CA, the others from the mesh CA."""
PUBLIC = ("server", "idp")

CERTIFICATES = (
    *("root", "issuing", "edge-ca", "mesh-ca", "stranger-ca", "gateway", "stranger"),
    *SERVICES,
    *(partner.name for partner in PARTNERS),
)
AUTHORITIES = ("root", "issuing", "edge-ca", "mesh-ca", "stranger-ca")


@dataclass(frozen=True, slots=True)
class Signer:
    """A CA at work: its certificate, its key, and the intermediates that a leaf of it must bring along."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    chain: tuple[x509.Certificate, ...] = ()


def ensure_pki(folder: Path, *, shared: bool = False) -> bool:
    """Make sure that `folder` holds a PKI that is whole and valid for a week more; True where it had to be made.

    `shared` leaves the private keys readable by other users: for containers that run as another user, never else.
    The new PKI is built beside the old one and takes its place as a whole.
    """
    if _is_valid(folder):
        return False
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
    fresh.mkdir(parents=True)
    _build(fresh)
    for key in fresh.glob("*.key"):
        key.chmod(0o644 if shared else 0o600)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
    return True


def _is_valid(folder: Path) -> bool:
    limit = dt.datetime.now(dt.UTC) + RENEW_BEFORE
    try:
        leaves = [x509.load_pem_x509_certificate((folder / f"{name}.pem").read_bytes()) for name in CERTIFICATES]
    except (OSError, ValueError):
        return False
    store = (folder / "trust.pem").is_file()
    keys = all((folder / f"{name}.key").is_file() for name in CERTIFICATES if name not in AUTHORITIES)
    return store and keys and all(leaf.not_valid_after_utc > limit for leaf in leaves)


def _build(folder: Path) -> None:
    root = _authority(folder, "root", "Demo QTSP Root CA")
    qualified = _authority(folder, "issuing", "Demo QTSP Qualified Web CA", above=root)
    # Envoy hands the leaf alone to the sidecar: so the store names the CA that issues, as a trusted list does.
    (folder / "trust.pem").write_bytes((folder / "issuing.pem").read_bytes() + (folder / "root.pem").read_bytes())
    edge, mesh = _authority(folder, "edge-ca", "Demo Edge CA"), _authority(folder, "mesh-ca", "Demo Mesh CA")
    stranger = _authority(folder, "stranger-ca", "Demo Unknown CA")
    for name, names in SERVICES.items():
        _service(folder, name, names, edge if name in PUBLIC else mesh)
    _leaf(folder, "gateway", mesh, _name("gateway"), [_usage(CLIENT), _alternatives(("gateway",))])
    for partner in PARTNERS:
        _partner(folder, partner.name, partner, qualified)
    _partner(folder, "stranger", PARTNERS[0], stranger)


def _authority(folder: Path, file: str, common_name: str, above: Signer | None = None) -> Signer:
    key = ec.generate_private_key(ec.SECP256R1())
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=True, path_length=0 if above else None), True),
        (_key_usage(authority=True), True),
    ]
    if above is not None:
        extensions.append((x509.CertificatePolicies([_policy(x509.ObjectIdentifier("2.5.29.32.0"))]), False))
    certificate = _sign(_name(common_name), key.public_key(), above or (key, _name(common_name)), extensions)
    (folder / f"{file}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    return Signer(certificate, key, (certificate, *above.chain) if above else ())


def _service(folder: Path, name: str, names: Sequence[str], signer: Signer) -> None:
    _leaf(folder, name, signer, _name(names[0]), [_usage(SERVER), _alternatives(names)])


def _partner(folder: Path, file: str, partner: Partner, signer: Signer) -> None:
    host = f"{partner.name}.example"
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, partner.country),
            x509.NameAttribute(NameOID.LOCALITY_NAME, "Demo City"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, partner.name),
            x509.NameAttribute(ORGANISATION_IDENTIFIER, partner.organisation),
            x509.NameAttribute(NameOID.COMMON_NAME, host),
        ]
    )
    statements = write_statements(partner.roles, partner.authority_name, partner.authority)
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        _usage(CLIENT, SERVER),
        _alternatives((host,)),
        (x509.CertificatePolicies([_policy(QNCP_W), _policy(QCP_W_PSD2)]), False),
        (x509.UnrecognizedExtension(QC_STATEMENTS, statements), False),
    ]
    _leaf(folder, file, signer, subject, extensions)


def _leaf(
    folder: Path,
    file: str,
    signer: Signer,
    subject: x509.Name,
    extensions: Sequence[tuple[x509.ExtensionType, bool]],
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    basics: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_key_usage(authority=False), True),
    ]
    leaf = _sign(subject, key.public_key(), signer, [*basics, *extensions])
    chain = b"".join(one.public_bytes(Encoding.PEM) for one in (leaf, *signer.chain))
    (folder / f"{file}.pem").write_bytes(chain)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / f"{file}.key").write_bytes(private)


def _sign(
    subject: x509.Name,
    public: ec.EllipticCurvePublicKey,
    signer: Signer | tuple[ec.EllipticCurvePrivateKey, x509.Name],
    extensions: Sequence[tuple[x509.ExtensionType, bool]],
) -> x509.Certificate:
    key, issuer = (signer.key, signer.certificate.subject) if isinstance(signer, Signer) else signer
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder(issuer, subject, public, x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(key, hashes.SHA256())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _policy(identifier: x509.ObjectIdentifier) -> x509.PolicyInformation:
    return x509.PolicyInformation(identifier, None)


def _usage(*purposes: x509.ObjectIdentifier) -> tuple[x509.ExtensionType, bool]:
    return x509.ExtendedKeyUsage(purposes), False


def _alternatives(names: Sequence[str]) -> tuple[x509.ExtensionType, bool]:
    return x509.SubjectAlternativeName([_alternative(name) for name in names]), False


def _alternative(name: str) -> x509.GeneralName:
    return x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name)


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
