"""JSON request bodies of transcoded routes: every member must be one that the backend's message has.

Envoy's transcoder drops members that it does not know, without a word. A client that misspells `amount` would then have
its payment made without it.
"""

import json
from typing import NoReturn

from model.snapshot import Body

DEPTH_LIMIT = 100
"""Values inside one another, as protobuf's own JSON parser allows."""
_SHOWN = 64
_MAP = "map:"


class _Faulty(ValueError):
    """Carries the sentence out of nested reads."""


def find_fault(body: bytes, policy: Body) -> str | None:
    """Tell what is wrong with a body in one sentence, None where nothing is. An empty body is an empty message."""
    if not body.strip():
        return None
    try:
        value = _DECODER.decode(body.decode())
        _check(value, policy.message, policy.messages, 0)
    except _Faulty as fault:
        return str(fault)
    except (ValueError, RecursionError):
        return "The body is not JSON."
    return None


def _check(value: object, name: str, messages: dict[str, dict[str, str]], depth: int) -> None:
    """Hold a value against the message of this name; arrays against it element by element."""
    if depth > DEPTH_LIMIT:
        raise _Faulty("The body is nested too deeply.")
    if isinstance(value, list):
        for item in value:
            _check(item, name, messages, depth + 1)
    elif isinstance(value, dict):
        members = messages.get(name, {})
        for member, inner in value.items():
            child = members.get(member)
            if child is None:
                raise _Faulty(f"The body has an unknown member: {_show(member)}.")
            _descend(inner, child, messages, depth + 1)


def _descend(value: object, child: str, messages: dict[str, dict[str, str]], depth: int) -> None:
    if child.startswith(_MAP):
        inner = child.removeprefix(_MAP)
        if inner and isinstance(value, dict):
            for item in value.values():
                _check(item, inner, messages, depth + 1)
    elif child:
        _check(value, child, messages, depth)


def _unique_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise _Faulty(f"The body has a member twice: {_show(repeated)}.")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise _Faulty(f"The body is not JSON: {name} is no value.")


def _show(name: str) -> str:
    return json.dumps(name[:_SHOWN])


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_members, parse_constant=_refuse_constant)
