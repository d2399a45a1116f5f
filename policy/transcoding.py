"""What a transcoded route may carry, from the google.api.http rules of a descriptor set."""

import re
from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from model.problem import problem_document
from model.reason import Reason
from policy.descriptor import DescriptorInvalid
from policy.route import Match

_VERBS = ("get", "put", "post", "delete", "patch")
_PART = re.compile(r"\{[^={}]+(?:=(?P<inner>[^{}]*))?\}|(?P<deep>\*\*)|(?P<one>\*)|(?P<literal>[^{}*]+)")
_VARIABLE = re.compile(r"\{([^={}]+)")
_DEEPEST = 4


def request_fields(descriptors: bytes, services: tuple[str, ...], match: Match) -> dict[str, Any]:
    """Describe the requests that a route transcodes, for policy/fields.lua.

    `rules` say by method and Lua pattern of the path which message the body holds, which fields the path sets
    (`bound`), and which field stands behind each query parameter that may stand once; `types` give, for each message
    and by both of their JSON names, a member's field and what it holds ("field kind"). Without rules nothing of the
    services is reached by the route. Raises DescriptorInvalid.
    """
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in FileDescriptorSet.FromString(descriptors).file:
            pool.Add(file)
        methods = [method for name in services for method in pool.FindServiceByName(name).methods]
        rules = [rule for method in methods for rule in _rules(method, pool) if _fits(rule, match)]
        types: dict[str, dict[str, str]] = {}
        for rule in rules:
            if "body" in rule:
                _collect(pool.FindMessageTypeByName(rule["body"]), types)
    except (KeyError, TypeError) as error:
        raise DescriptorInvalid(f"descriptors that do not fit together ({error})") from error
    refusal = problem_document(Reason.REQUEST_MALFORMED, "@REQUEST@", "@DETAIL@")
    return {"rules": rules, "types": types, "refusal": refusal}


def _fits(rule: dict[str, Any], match: Match) -> bool:
    if match.methods and rule["method"] not in match.methods:
        return False
    return match.path is None or bool(rule["pattern"] == f"^{lua_pattern(match.path)}$")


def _rules(method: MethodDescriptor, pool: descriptor_pool.DescriptorPool) -> Iterator[dict[str, Any]]:
    # The options are read by the set's own google.api.http, so that no package of Google's APIs is needed.
    options = message_factory.GetMessageClass(pool.FindMessageTypeByName("google.protobuf.MethodOptions"))
    extension = pool.FindExtensionByName("google.api.http")
    annotated: Any = options.FromString(method.GetOptions().SerializeToString())
    rule = annotated.Extensions[extension]
    for binding in (rule, *rule.additional_bindings):
        verb = binding.WhichOneof("pattern")
        if verb in _VERBS:
            told = {"method": verb.upper(), "pattern": f"^{lua_pattern(getattr(binding, verb))}$"}
            body = _body(method.input_type, binding.body)
            bound = _VARIABLE.findall(getattr(binding, verb))
            once = dict(_single(method.input_type, "", "", 0))
            yield {**told, "bound": bound, "once": once, **({"body": body} if body else {})}


def lua_pattern(template: str) -> str:
    """Turn a path template of google.api.http into a Lua pattern."""
    return "".join(map(_part, _PART.finditer(template)))


def _part(match: re.Match[str]) -> str:
    if match["literal"]:
        return re.sub(r"[^A-Za-z0-9/_]", lambda found: f"%{found[0]}", match["literal"])
    if match["inner"]:
        return lua_pattern(match["inner"])
    return ".+" if match["deep"] else "[^/]+"


def _body(message: Descriptor, body: str) -> str:
    if body in {"", "*"}:
        return message.full_name if body else ""
    return _kind(message.fields_by_name[body])


def _collect(message: Descriptor, types: dict[str, dict[str, str]]) -> None:
    if message.full_name in types or _is_free(message):
        return
    members = types[message.full_name] = {}
    for field in message.fields:
        members[field.name] = members[field.json_name] = f"{field.name} {_kind(field)}"
        inner = field.message_type
        if inner is not None:
            value = inner.fields_by_name["value"].message_type if inner.GetOptions().map_entry else inner
            if value is not None:
                _collect(value, types)


def _kind(field: FieldDescriptor) -> str:
    inner = field.message_type
    if inner is None or _is_free(inner):
        return ""
    if inner.GetOptions().map_entry:
        return f"*{_kind(inner.fields_by_name['value'])}"
    return inner.full_name


def _is_free(message: Descriptor) -> bool:
    """Well-known types have JSON forms of their own (Struct, Any, Timestamp): whatever stands there, it is theirs."""
    return message.full_name.startswith("google.protobuf.")


def _single(message: Descriptor, prefix: str, parent: str, depth: int) -> Iterator[tuple[str, str]]:
    """List the query parameters of a message that may stand once, by both of their names, each with its field's path.

    `prefix` is how the message is spelled in the parameter, `parent` its own path.
    """
    for field in message.fields:
        if field.is_repeated:
            continue
        path = parent + field.name
        for name in sorted({field.name, field.json_name}):
            if field.message_type is None or _is_free(field.message_type):
                yield prefix + name, path
            elif depth < _DEEPEST:
                yield from _single(field.message_type, f"{prefix}{name}.", f"{path}.", depth + 1)
