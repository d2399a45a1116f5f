"""The qcStatements of a PSD2 QWAC in DER: QcCompliance, QcType web and the PSD2 statement (ETSI TS 119 495)."""

from collections.abc import Sequence

ROLES = {"PSP_AS": 1, "PSP_PI": 2, "PSP_AI": 3, "PSP_IC": 4}


def write_qualified(roles: Sequence[str], authority_name: str, authority: str) -> bytes:
    """Write the value of the qcStatements extension for `roles` under the supervision of `authority` ("DE-BAFIN")."""
    compliance = _sequence(_oid(0, 4, 0, 1862, 1, 1))
    kind = _sequence(_oid(0, 4, 0, 1862, 1, 6), _sequence(_oid(0, 4, 0, 1862, 1, 6, 3)))
    held = _sequence(*(_sequence(_oid(0, 4, 0, 19495, 1, ROLES[role]), _text(role)) for role in roles))
    psd2 = _sequence(_oid(0, 4, 0, 19495, 2), _sequence(held, _text(authority_name), _text(authority)))
    return _sequence(compliance, kind, psd2)


def _oid(first: int, second: int, *rest: int) -> bytes:
    encoded = bytes([40 * first + second])
    for arc in rest:
        groups = [arc & 0x7F]
        while arc := arc >> 7:
            groups.append(0x80 | arc & 0x7F)
        encoded += bytes(reversed(groups))
    return _element(0x06, encoded)


def _text(value: str) -> bytes:
    return _element(0x0C, value.encode())


def _sequence(*elements: bytes) -> bytes:
    return _element(0x30, b"".join(elements))


def _element(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = (
        bytes([size]) if size < 0x80 else bytes([0x81, size]) if size < 0x100 else bytes([0x82, *divmod(size, 256)])
    )
    return bytes([tag]) + length + content
