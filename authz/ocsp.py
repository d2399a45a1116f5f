"""OCSP (RFC 6960): the request for one certificate, and a response to it, believed only from those who may give it."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat import asn1
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp

from authz.chain import signed_by
from authz.crl import SKEW, StatusInvalid
from authz.parsed import DIGESTS, Parsed, Unparsable, fold_name, instant_of, parse_certificate
from authz.signature import signature_holds
from model.instant import Instant

MAX_RESPONSE = 64 * 1024
ECDSA = "1.2.840.10045.4."
OCSP_SIGNING = "1.3.6.1.5.5.7.3.9"
CERT_ID_DIGESTS = frozenset({"sha1", "sha256", "sha384", "sha512"})
"""SHA-1 only names the issuer here, it proves nothing, and most responders know no other."""


@dataclass(frozen=True, slots=True)
class Response:
    """What a responder said of one certificate: `revoked`, or good; in force from `this_update` to `next_update`."""

    revoked: bool
    this_update: Instant
    next_update: Instant

    def fresh(self, now: Instant) -> bool:
        """Whether the response is in force (RFC 6960 section 4.2.2.1); SKEW is for a clock of theirs that is ahead."""
        return self.this_update - SKEW <= now <= self.next_update

    @property
    def renewal(self) -> Instant:
        """The middle of its window, from which the next one is fetched."""
        return (self.this_update + self.next_update) // 2


@asn1.sequence
class _PublicKeyInfo:
    algorithm: asn1.TLV
    key: asn1.BitString


def write_request(certificate: Parsed, issuer: Parsed) -> bytes:
    """Write the request (DER) for one certificate, without a nonce: the answer is kept, and its window counts."""
    builder = ocsp.OCSPRequestBuilder().add_certificate(
        certificate.certificate,
        issuer.certificate,
        hashes.SHA1(),  # noqa: S303 - a name, not a proof; see above
    )
    return builder.build().public_bytes(Encoding.DER)


def read_response(data: bytes, certificate: Parsed, issuer: Parsed, now: Instant) -> Response:
    """Read a response (DER) about `certificate`, signed by `issuer` or by a responder that it authorised.

    Raises StatusInvalid: unreadable, not successful, about another certificate, status unknown, good without
    nextUpdate, out of its window, or signed by somebody who may not, or weakly. "Revoked" needs no nextUpdate, which
    RFC 6960 leaves optional: it is believed at once and asked for again.
    """
    if len(data) > MAX_RESPONSE:
        raise StatusInvalid("the response is too large")
    try:
        response = ocsp.load_der_ocsp_response(data)
        _check_form(response)
        _check_signer(response, issuer, now)
        return _read(_single(response, certificate, issuer), now)
    except StatusInvalid:
        raise
    except (ValueError, TypeError, OverflowError, UnsupportedAlgorithm, x509.DuplicateExtension) as error:
        raise StatusInvalid("the response cannot be parsed") from error


def _check_form(response: ocsp.OCSPResponse) -> None:
    if response.response_status is not ocsp.OCSPResponseStatus.SUCCESSFUL:
        raise StatusInvalid(f"the responder answers {response.response_status.name.lower()}")
    if any(extension.critical for extension in response.extensions):
        raise StatusInvalid("the response has a critical extension that is not understood")


def _read(single: ocsp.OCSPSingleResponse, now: Instant) -> Response:
    if single.certificate_status is ocsp.OCSPCertStatus.UNKNOWN:
        raise StatusInvalid("the responder does not know the certificate")
    revoked = single.certificate_status is ocsp.OCSPCertStatus.REVOKED
    if single.next_update_utc is None and not revoked:
        raise StatusInvalid("the response does not say how long it holds")
    this_update = instant_of(single.this_update_utc)
    next_update = now if single.next_update_utc is None else instant_of(single.next_update_utc)
    found = Response(revoked, this_update, next_update)
    if not found.fresh(now):
        raise StatusInvalid("the response is not in force")
    return found


def _single(response: ocsp.OCSPResponse, certificate: Parsed, issuer: Parsed) -> ocsp.OCSPSingleResponse:
    for single in response.responses:
        if single.serial_number == certificate.serial and _names_issuer(single, certificate, issuer):
            return single
    raise StatusInvalid("the response is about another certificate")


def _names_issuer(single: ocsp.OCSPSingleResponse, certificate: Parsed, issuer: Parsed) -> bool:
    name = single.hash_algorithm.name
    if name not in CERT_ID_DIGESTS:
        return False
    return (
        hashlib.new(name, certificate.certificate.issuer.public_bytes()).digest() == single.issuer_name_hash
        and hashlib.new(name, _key_bits(issuer)).digest() == single.issuer_key_hash
    )


def _key_bits(certificate: Parsed) -> bytes:
    """Take the BIT STRING of the public key, without its algorithm: what CertID and byKey are digests of."""
    return asn1.decode_der(_PublicKeyInfo, certificate.key_bytes).key.as_bytes()


def _check_signer(response: ocsp.OCSPResponse, issuer: Parsed, now: Instant) -> None:
    digest = response.signature_hash_algorithm
    if digest is not None and digest.name not in DIGESTS:
        raise StatusInvalid(f"the response is signed over {digest.name}")
    named = [each for each in _signers(response, issuer, now) if _is_responder(response, each)]
    if not named:
        raise StatusInvalid("the responder is not authorised by the issuer")
    parameters = ec.ECDSA(digest) if digest is not None and _names_ecdsa(response) else None
    if not any(
        signature_holds(
            each.certificate.public_key(), response.signature, response.tbs_response_bytes, digest, parameters
        )
        for each in named
    ):
        raise StatusInvalid("the signature of the response does not hold")


def _signers(response: ocsp.OCSPResponse, issuer: Parsed, now: Instant) -> Iterator[Parsed]:
    """List who may sign: the issuer, and certificates it issued itself for this use (RFC 6960 section 4.2.2.2)."""
    yield issuer
    for certificate in response.certificates:
        try:
            responder = parse_certificate(certificate.public_bytes(Encoding.DER))
        except Unparsable:
            continue
        if _authorised(responder, issuer, now):
            yield responder


def _authorised(responder: Parsed, issuer: Parsed, now: Instant) -> bool:
    if OCSP_SIGNING not in (responder.usages or ()) or not responder.not_before <= now <= responder.not_after:
        return False
    if responder.key_usage is not None and not responder.key_usage.digital_signature:
        return False
    if responder.weak_key or responder.weak_digest or responder.unknown:
        return False
    return signed_by(responder, issuer)


def _names_ecdsa(response: ocsp.OCSPResponse) -> bool:
    return response.signature_algorithm_oid.dotted_string.startswith(ECDSA)


def _is_responder(response: ocsp.OCSPResponse, signer: Parsed) -> bool:
    if response.responder_name is not None:
        return fold_name(response.responder_name) == signer.subject
    # byKey is always a SHA-1 digest (RFC 6960 section 4.2.1): a name, not a proof.
    return response.responder_key_hash == hashlib.sha1(_key_bits(signer), usedforsecurity=False).digest()
