"""Signatures of certificates and OCSP responses, for the kinds of key that are strong enough to count here."""

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

Parameters = padding.PSS | padding.PKCS1v15 | ec.ECDSA | None


def signature_holds(
    key: CertificatePublicKeyTypes,
    signature: bytes,
    signed: bytes,
    digest: hashes.HashAlgorithm | None,
    parameters: Parameters,
) -> bool:
    """Whether the key made the signature; False too where key, digest and parameters do not go together."""
    try:
        if isinstance(key, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
            if digest is not None:
                return False
            key.verify(signature, signed)
        elif isinstance(key, ec.EllipticCurvePublicKey) and isinstance(parameters, ec.ECDSA):
            key.verify(signature, signed, parameters)
        elif isinstance(key, rsa.RSAPublicKey) and digest is not None and not isinstance(parameters, ec.ECDSA):
            key.verify(signature, signed, parameters or padding.PKCS1v15(), digest)
        else:
            return False
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True
