"""Names of hosts and origins, as Envoy compares them: what could never match is refused where it is written."""

import re
from typing import Annotated

from policy.scalar import scalar

_NAME = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}(?:\.[A-Za-z0-9_-]{1,63})*"
_HOST = re.compile(rf"{_NAME}\.?|\[[0-9A-Fa-f:.]{{2,45}}\]", re.ASCII)
_DOMAIN = re.compile(rf"\*|\*[.-]{_NAME}\.?|{_NAME}[.-]\*", re.ASCII)
_ORIGIN = re.compile(
    r"([a-z][a-z0-9+.-]{0,30})://(?:[A-Za-z0-9._*-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?", re.ASCII
)
_PORTS = {"http": ":80", "https": ":443"}

HOST_WORDS = "a host name such as api.example, without a port"
DOMAIN_WORDS = "a host name without a port; or *, *.example, or api.*"
ORIGIN_WORDS = "an origin such as https://app.example or https://*.example:8443, without a path; or *"
LONGEST = 253


def parse_host(value: object) -> str:
    """Read a host: in lower case, and without the last dot, which Envoy takes away from what is asked for."""
    if not isinstance(value, str) or len(value) > LONGEST or not _HOST.fullmatch(value):
        raise ValueError(HOST_WORDS)
    return value.lower().rstrip(".")


def parse_domain(value: object) -> str:
    """Read a host of a plane, in which `*` stands for the first part, for the last, or for all."""
    if not isinstance(value, str) or len(value) > LONGEST or not (_HOST.fullmatch(value) or _DOMAIN.fullmatch(value)):
        raise ValueError(DOMAIN_WORDS)
    return value.lower().rstrip(".")


def parse_origin(value: object) -> str:
    """Read an origin as browsers send it: in lower case, without the port of its scheme (RFC 6454 section 6.2)."""
    if value in {"*", "null"}:
        return str(value)
    match = _ORIGIN.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(ORIGIN_WORDS)
    return match[0].lower().removesuffix(_PORTS.get(match[1], " "))


Host = Annotated[str, *scalar(parse_host, HOST_WORDS)]
Domain = Annotated[str, *scalar(parse_domain, DOMAIN_WORDS)]
Origin = Annotated[str, *scalar(parse_origin, ORIGIN_WORDS)]
