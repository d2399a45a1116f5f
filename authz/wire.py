"""Bytes of envoy.service.auth.v3 to a Request, and a Verdict to bytes.

What leaves here is well-formed whatever the steps did: a header field that could break out of its line is never
written, and an answer is either a denial with a status, or an allowance, never something between the two.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from google.protobuf.message import DecodeError

from authz.refusal import write_refusal
from model.instant import Instant
from model.place import METADATA, write_places
from model.reason import Reason
from model.request import Request
from model.verdict import Allow, Deny, Header, Verdict
from pb import envoy_core_pb2 as core
from pb import ext_authz_pb2 as pb

ROUTE_EXTENSION = "wardgate.route"
"""The key of `context_extensions` under which an Envoy route carries its wardgate route id."""

# Envoy takes PERMISSION_DENIED and UNAUTHENTICATED for a decision whatever its runtime flags say; every other code can
# be taken for a failure of the service, which `failure_mode_allow` would turn into an open door.
_PERMISSION_DENIED = 7
_UNAUTHENTICATED = 16

_APPEND = core.HeaderValueOption.APPEND_IF_EXISTS_OR_ADD
_OVERWRITE = core.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD

_LONGEST_ID = 128
"""Characters of a request id that are kept: it is repeated in logs, documents and contexts."""

_FILLS = 256
"""Times that one form is filled in: a message keeps every value that it ever had, until it goes itself."""

_NONE: frozenset[str] = frozenset()

# RFC 9110 section 5.6.2, in lower case.
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")


class CheckMalformed(Exception):
    """The message is no CheckRequest, or one with text that is not UTF-8 where Envoy promises it."""


class HeaderInvalid(Exception):
    """A step wants to set a header field that would not be one; the text names it and not its value."""


def read_check(data: bytes, now: Instant) -> Request:
    """Read one CheckRequest, received at `now`. Raises CheckMalformed; an empty message is an empty request."""
    try:
        attributes = pb.CheckRequest.FromString(data).attributes
    except DecodeError as error:
        raise CheckMalformed("not a CheckRequest") from error
    http = attributes.request.http
    source = attributes.source
    lines = http.header_map.headers
    headers, repeated = _read_lines(lines) if lines else (_read_joined(http.headers.items()), _NONE)
    return Request(
        http.method,
        http.path,
        http.host,
        http.scheme,
        source.address.socket_address.address,
        (headers.get("x-request-id") or http.id)[:_LONGEST_ID],
        attributes.context_extensions.get(ROUTE_EXTENSION),
        source.certificate,
        attributes.tls_session.sni,
        headers,
        repeated,
        now,
    )


def write_verdict(verdict: Verdict, request: Request, style: str = "problem") -> bytes:
    """Write one CheckResponse. Raises HeaderInvalid where an allowance would set a field that is none."""
    if isinstance(verdict, Allow):
        return _write_allow(verdict)
    return _write_deny(verdict, request, style)


def _read_lines(lines: Sequence[core.HeaderValue]) -> tuple[dict[str, str], frozenset[str]]:
    """Read `header_map`: every field line by itself, so that repetition is seen and not guessed.

    What Envoy sends is read in one go: lower-case names, each once, with raw values. Anything else line by line.
    """
    headers = {line.key: line.raw_value.decode("latin-1") for line in lines}
    if len(headers) == len(lines) and all(headers.values()) and "".join(headers).islower():
        return headers, _NONE
    return _read_odd_lines(lines)


def _read_odd_lines(lines: Iterable[core.HeaderValue]) -> tuple[dict[str, str], frozenset[str]]:
    headers: dict[str, str] = {}
    repeated: set[str] = set()
    for line in lines:
        name = line.key.lower()
        value = line.raw_value.decode("latin-1") or line.value
        if name in headers:
            repeated.add(name)
            value = f"{headers[name]}, {value}"
        headers[name] = value
    return headers, frozenset(repeated)


def _read_joined(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Read `headers`, into which Envoy without `encode_raw_headers` joins repeated fields with a comma."""
    return {name.lower(): value for name, value in fields}


def _write_allow(allow: Allow) -> bytes:
    """Write an allowance in parts: messages of one type that stand one after the other are read as one, merged."""
    written = _allowance(allow.set_headers, allow.remove_headers, allow.remove_query)
    if allow.answer_headers:
        written += _answer_form(tuple([name for name, _ in allow.answer_headers])).fill(allow.answer_headers)
    if allow.places:
        response = pb.CheckResponse()
        response.dynamic_metadata[METADATA] = write_places(allow.places)
        written += response.SerializeToString()
    return written


class _Form:
    """An allowance with answer fields of fixed names, whose values are filled in: making it anew takes far longer."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._renew()

    def fill(self, fields: Iterable[Header]) -> bytes:
        """Write it with the values of these fields, which are those of its names. Raises HeaderInvalid."""
        if self._fills == _FILLS:
            self._renew()
        self._fills += 1
        for header, (name, value) in zip(self._headers, fields, strict=True):
            if not _is_value(value):
                raise HeaderInvalid(f"{name[:40]!r} is no header field that may be set")
            header.value = value
        return self._response.SerializeToString()

    def _renew(self) -> None:
        self._fills = 0
        self._response = pb.CheckResponse()
        options = self._response.ok_response.response_headers_to_add
        _set_fields(options.add, [(name, "") for name in self._names])
        self._headers = [option.header for option in options]


@lru_cache(maxsize=256)
def _answer_form(names: tuple[str, ...]) -> _Form:
    return _Form(names)


def _write_deny(deny: Deny, request: Request, style: str) -> bytes:
    refusal = write_refusal(deny, request, style)
    response = pb.CheckResponse.FromString(_denial(deny.reason, refusal.status))
    denied = response.denied_response
    denied.body = refusal.body
    for name, value in refusal.headers:
        # A refusal goes out whatever happens; a field that is none is left out of it.
        if is_field(name, value):
            _add(denied.headers.add(), name, value, _APPEND if name == "www-authenticate" else _OVERWRITE)
    return response.SerializeToString()


@lru_cache(maxsize=4096)
def _allowance(fields: tuple[Header, ...], removed: tuple[str, ...], query: tuple[str, ...]) -> bytes:
    """Write an allowance up to what it says of limits: the same for all requests that share a context, so kept."""
    response = pb.CheckResponse()
    response.status.SetInParent()
    ok = response.ok_response
    ok.SetInParent()
    _set_fields(ok.headers.add, fields)
    ok.headers_to_remove.extend(name for name in removed if _is_name(name))
    ok.query_parameters_to_remove.extend(query)
    return response.SerializeToString()


@lru_cache(maxsize=1024)
def _denial(reason: Reason, status: int) -> bytes:
    """Write what all refusals for one reason share."""
    response = pb.CheckResponse()
    response.status.code = _UNAUTHENTICATED if status == 401 else _PERMISSION_DENIED
    response.status.message = reason.value
    response.denied_response.status.code = status
    return response.SerializeToString()


def _set_fields(add: Callable[[], core.HeaderValueOption], fields: Iterable[Header]) -> None:
    """Write fields that replace those of their names. Raises HeaderInvalid."""
    for name, value in fields:
        if not is_field(name, value):
            raise HeaderInvalid(f"{name[:40]!r} is no header field that may be set")
        _add(add(), name, value, _OVERWRITE)


def _add(
    option: core.HeaderValueOption, name: str, value: str, action: core.HeaderValueOption.HeaderAppendAction.ValueType
) -> None:
    option.append_action = action
    header = option.header
    header.key = name
    header.value = value


def is_field(name: str, value: str) -> bool:
    """Whether name and value make one header field and nothing else: no pseudo-header, no Host, no line break.

    Values are printable ASCII: everything that is set here is written by the gateway itself.
    """
    return _is_name(name) and _is_value(value)


def _is_value(value: str) -> bool:
    return value.isascii() and value.isprintable()


@lru_cache(maxsize=4096)
def _is_name(name: str) -> bool:
    return bool(name) and _TOKEN.issuperset(name) and name != "host"
