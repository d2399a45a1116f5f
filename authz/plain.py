"""Plain headers for upstreams that read no caller context: what the gateway knows of a caller, one member a header.

They are as trustworthy as the way from Envoy to the upstream, and no more: whoever reaches the upstream past Envoy can
write them. The signed context says the same and cannot be forged.
"""

from functools import lru_cache
from urllib.parse import quote

from authz.evidence import Evidence
from model.verdict import Header

# RFC 9110, section 5.5: visible ASCII. The comma parts the elements of a list, the percent sign writes everything else.
_SAFE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in ",%")


def plain_fields(evidence: Evidence) -> tuple[tuple[Header, ...], tuple[str, ...]]:
    """Split the plain headers of the document: those to be set, and those to be removed, there being nothing to say.

    What is not visible ASCII is percent-encoded (RFC 3986, section 2.1), the comma too; lists are joined by commas. A
    header that would be longer than the context may be is removed: half a list of roles is another list.
    """
    settings = evidence.resident.snapshot.context
    fields, absent = [], []
    for name, member in settings.plain:
        value = _text(evidence, member)
        if value and len(value) <= settings.max_size:
            fields.append((name, value))
        else:
            absent.append(name)
    return tuple(fields), tuple(absent)


def _text(evidence: Evidence, member: str) -> str:
    match member:
        case "scopes":
            return _join(evidence.scopes)
        case "roles":
            return _join(evidence.roles)
        case "psd2_roles":
            return _join(evidence.identity.psd2_roles) if evidence.identity is not None else ""
        case "sub":
            return _encode(evidence.caller.subject)
        case _:
            value: str = getattr(evidence.caller, member)
            return _encode(value)


def _join(values: frozenset[str]) -> str:
    return ",".join(map(_encode, sorted(values)))


@lru_cache(maxsize=1024)
def _encode(text: str) -> str:
    return quote(text, safe=_SAFE, errors="surrogatepass")
