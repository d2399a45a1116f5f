"""A small certificate authority for the tests of this room: real keys, real signatures, made-up names."""

import dataclasses
from datetime import UTC, datetime, timedelta
from functools import cache
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from authz.parsed import ORGANIZATION_IDENTIFIER, QC_STATEMENTS
from authz.statements import write_statements
from model.instant import SECOND
from model.snapshot import CertificateProfile

MOMENT = datetime(2026, 11, 30, 12, tzinfo=UTC)
NOW = int(MOMENT.timestamp()) * SECOND
DAY = timedelta(days=1)
QEVCP_W = "0.4.0.194112.1.4"
AUTHORITY_NAME = "Bundesanstalt fuer Finanzdienstleistungsaufsicht"


@cache
def key(name="p256"):
    """Make one key for each name, once: "rsa1024", "ed25519/partner"; before the slash stands its kind."""
    kind = name.partition("/")[0]
    if kind.startswith("rsa"):
        return rsa.generate_private_key(65537, int(kind[3:]))
    if kind == "ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    curves = {"p256": ec.SECP256R1, "p384": ec.SECP384R1, "k256": ec.SECP256K1, "p224": ec.SECP224R1}
    return ec.generate_private_key(curves[kind]())


def name_of(common_name, *organisations):
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    attributes += [x509.NameAttribute(ORGANIZATION_IDENTIFIER, each) for each in organisations]
    return x509.Name(attributes)


@dataclasses.dataclass(frozen=True)
class Issued:
    """A certificate with the key that belongs to it."""

    certificate: x509.Certificate
    key: object

    @property
    def der(self):
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def pem(self):
        return self.certificate.public_bytes(Encoding.PEM).decode()


def usage(*names):
    every = [
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    ]
    return x509.KeyUsage(**{each: each in names for each in every})


def sign(builder, issuer_key, digest=None):
    """Sign a builder with the digest that the key wants."""
    plain = isinstance(issuer_key, ed25519.Ed25519PrivateKey)
    return builder.sign(issuer_key, None if plain else digest or hashes.SHA256())


def issue(
    subject,
    issuer=None,
    *,
    keyed="p256",
    start=MOMENT - DAY,
    end=MOMENT + 30 * DAY,
    serial=None,
    extensions=(),
    digest=None,
):
    """Issue a certificate to `subject` (an x509.Name); `issuer` None makes it self-signed."""
    own = key(keyed)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(own.public_key())
        .serial_number(serial or x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )
    for value, critical in extensions:
        builder = builder.add_extension(value, critical)
    return Issued(sign(builder, issuer.key if issuer else own, digest), own)


def authority(common_name="Test Root", issuer=None, *, path_length=None, extra=(), keyed=None, **options):
    extensions = [
        (x509.BasicConstraints(ca=True, path_length=path_length), True),
        (usage("key_cert_sign", "crl_sign"), True),
        *extra,
    ]
    keyed = keyed or f"p256/{common_name}"
    return issue(name_of(common_name), issuer, keyed=keyed, extensions=extensions, **options)


def leaf_extensions(
    *,
    roles=("PSP_AI",),
    authority_id="DE-BAFIN",
    statements=None,
    critical=False,
    policies=(QEVCP_W,),
    usages=(ExtendedKeyUsageOID.CLIENT_AUTH,),
    key_usage=("digital_signature",),
    extra=(),
):
    """The extensions of a QWAC; each argument None leaves its extension out."""
    if statements is None and roles is not None:
        statements = write_statements(roles, AUTHORITY_NAME, authority_id)
    extensions = []
    if statements is not None:
        extensions.append((x509.UnrecognizedExtension(QC_STATEMENTS, statements), critical))
    if policies is not None:
        information = [x509.PolicyInformation(x509.ObjectIdentifier(each), None) for each in policies]
        extensions.append((x509.CertificatePolicies(information), False))
    if usages is not None:
        extensions.append((x509.ExtendedKeyUsage(usages), False))
    if key_usage is not None:
        extensions.append((usage(*key_usage), True))
    return [*extensions, *extra]


def qwac(issuer, *, common_name="partner.example", organisations=("PSDDE-BAFIN-123456",), keyed="p256/leaf", **options):
    """Issue a QWAC. Options of `issue` and of `leaf_extensions` may be mixed."""
    own = {each: options.pop(each) for each in ("start", "end", "serial", "digest") if each in options}
    return issue(
        name_of(common_name, *organisations), issuer, keyed=keyed, extensions=leaf_extensions(**options), **own
    )


def encoded(*issued):
    """The attribute as Envoy sends it: PEM, URL-encoded."""
    return quote("".join(each.pem for each in issued), safe="")


def profile_of(*anchors, profile="qwac-psd2", **options):
    return CertificateProfile(profile=profile, anchors=tuple(each.pem for each in anchors), **options)
