"""Look-ups in the extensions of certificates, CRLs and OCSP responses."""

from typing import TypeVar

from cryptography import x509

Value = TypeVar("Value", bound=x509.ExtensionType)


def find_value(extensions: x509.Extensions, kind: type[Value]) -> Value | None:
    """Return the value of an extension by its class; None where it is absent."""
    for each in extensions:
        if isinstance(each.value, kind):
            return each.value
    return None
