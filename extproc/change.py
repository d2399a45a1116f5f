"""What is answered to an event: pure, from the route's policy and the headers alone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from extproc.machine import Phase
from extproc.status import Mapped, map_status
from model.problem import MEDIA_TYPE
from model.reason import OWN
from model.snapshot import Response, Route
from model.verdict import Header

# Envoy keeps an answer whose response code details start like this as it is (policy/local.py).
DETAILS = "ext_proc_wardgate_problem"
LONGEST_MESSAGE = 512


@dataclass(slots=True)
class Event:
    """One message of Envoy: its phase, its headers (lower-case names, repeated ones kept), and what it knows.

    `places` is what the decision on the request wrote of places that it holds (`model.place`), "" for none.
    """

    phase: Phase
    headers: Sequence[Header] = ()
    route: str = ""
    request_id: str = ""
    places: str = ""


@dataclass(slots=True)
class Pass:
    """Go on unchanged, or with changed headers."""

    set_headers: tuple[Header, ...] = ()
    remove_headers: tuple[str, ...] = ()


@dataclass(slots=True)
class Replace:
    """Answer with this instead of what came from the upstream."""

    status: int
    body: str
    set_headers: tuple[Header, ...] = field(default_factory=tuple)


Reply = Pass | Replace

UNCHANGED = Pass()


def answer_event(event: Event, policies: Mapping[str, Route]) -> Reply:
    """Answer one event. A route without a policy passes unchanged: it should not have called at all."""
    route = policies.get(event.route)
    if route is None or route.response is None or event.phase is not Phase.RESPONSE_HEADERS:
        return UNCHANGED
    return answer_response(event, route.response)


def answer_response(event: Event, policy: Response) -> Reply:
    """Turn a gRPC error into a problem document, or clean the headers of what passes."""
    headers = dict(event.headers)
    if policy.problems:
        mapped = map_status(headers.get("grpc-status", "0"))
        if mapped is not None:
            return _problem(mapped, headers, event.request_id, policy)
    removed = tuple({name for name, _ in event.headers if strips_name(policy.strip, name)})
    return Pass(policy.set, tuple(sorted(removed)))


def strips_name(patterns: Sequence[str], name: str) -> bool:
    """Whether a header goes: patterns are exact lower-case names or prefixes that end in `*`; pseudo headers stay."""
    if name.startswith(":"):
        return False
    return any(name.startswith(p[:-1]) if p.endswith("*") else name == p for p in patterns)


def _problem(mapped: Mapped, headers: Mapping[str, str], request_id: str, policy: Response) -> Replace:
    message = _printable(unquote(headers.get("grpc-message", ""), errors="replace")) if mapped.told else ""
    members: dict[str, str | int] = {
        "type": OWN + mapped.slug,
        "title": mapped.title,
        "status": mapped.http,
    }
    if message:
        members["detail"] = message
    if request_id:
        members["request_id"] = request_id
    extra: list[Header] = [("content-type", MEDIA_TYPE)]
    if mapped.retry_after is not None:
        extra.append(("retry-after", str(mapped.retry_after)))
    if mapped.http == 401:
        # RFC 9110 section 15.5.2: a 401 carries a challenge, also one that the upstream caused.
        extra.append(("www-authenticate", 'Bearer realm="upstream"'))
    return Replace(mapped.http, json.dumps(members, separators=(",", ":")), (*extra, *policy.set))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text[:LONGEST_MESSAGE])
