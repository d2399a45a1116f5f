"""Revocation lists and OCSP responses of made-up authorities, each as right or as wrong as a test asks for."""

from datetime import timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID

from authz.crl import read_crl
from authz.parsed import parse_certificate
from authz.status import Revocations
from tests.authz import pki

HOURS = timedelta(hours=1)


def parsed(issued):
    return parse_certificate(issued.der)


def crl_of(
    issuer, revoked=(), *, start=-HOURS, end=HOURS, number=1, extensions=(), entries=(), keyed=None, digest=None
):
    """A list, DER. `revoked` are serial numbers, `entries` pairs of one and its extensions."""
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.certificate.subject)
        .last_update(pki.MOMENT + start)
        .next_update(pki.MOMENT + end)
        .add_extension(x509.CRLNumber(number), critical=False)
    )
    for value, critical in extensions:
        builder = builder.add_extension(value, critical)
    for serial, values in [*((each, ()) for each in revoked), *entries]:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(pki.MOMENT - HOURS)
        for value, critical in values:
            entry = entry.add_extension(value, critical)
        builder = builder.add_revoked_certificate(entry.build())
    return pki.sign(builder, pki.key(keyed) if keyed else issuer.key, digest).public_bytes(Encoding.DER)


def scope(**options):
    every = {
        "full_name": None,
        "relative_name": None,
        "only_contains_user_certs": False,
        "only_contains_ca_certs": False,
        "only_some_reasons": None,
        "indirect_crl": False,
        "only_contains_attribute_certs": False,
    }
    return (x509.IssuingDistributionPoint(**(every | options)), True)


def book_of(*lists, issuers):
    book = Revocations()
    for number, data in enumerate(lists):
        book.put_crl(f"list {number}", read_crl(data, [parsed(each) for each in issuers]))
    return book


def reason_of(leaf, root, book, *, now=pki.NOW, hard=True):
    refusal = book.judge((parsed(leaf), parsed(root)), now, hard=hard)
    return refusal and refusal.reason


# OCSP


def response_of(
    leaf,
    issuer,
    *,
    signer=None,
    certificates=(),
    status=ocsp.OCSPCertStatus.GOOD,
    start=-HOURS,
    end=HOURS,
    algorithm=None,
    by_key=False,
    digest=None,
    about=None,
):
    signer = signer or issuer
    revoked = status is ocsp.OCSPCertStatus.REVOKED
    builder = ocsp.OCSPResponseBuilder().add_response(
        cert=(about or leaf).certificate,
        issuer=issuer.certificate,
        algorithm=algorithm or hashes.SHA1(),
        cert_status=status,
        this_update=pki.MOMENT + start,
        next_update=None if end is None else pki.MOMENT + end,
        revocation_time=pki.MOMENT - HOURS if revoked else None,
        revocation_reason=None,
    )
    encoding = ocsp.OCSPResponderEncoding.HASH if by_key else ocsp.OCSPResponderEncoding.NAME
    builder = builder.responder_id(encoding, signer.certificate)
    if certificates:
        builder = builder.certificates([each.certificate for each in certificates])
    return pki.sign(builder, signer.key, digest).public_bytes(Encoding.DER)


def responder(issuer, *, usages=(ExtendedKeyUsageOID.OCSP_SIGNING,), **options):
    extensions = [(pki.usage("digital_signature"), True)]
    if usages:
        extensions.append((x509.ExtendedKeyUsage(usages), False))
    return pki.issue(pki.name_of("Responder"), issuer, keyed="p256/responder", extensions=extensions, **options)
