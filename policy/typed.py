"""Small makers of Envoy configuration messages that every part of the compiler uses."""

import datetime as dt
from typing import Any as Anything

from betterproto2 import Message
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.type.matcher import v3 as matcher
from envoy_data_plane.google.protobuf import Any, ListValue, Struct, Value

from policy.memo import remember_classes
from policy.scalar import Address

remember_classes()


def pack(message: Message) -> Any:
    """Wrap a message as google.protobuf.Any."""
    return Any.pack(message)


def span(nanoseconds: int) -> dt.timedelta:
    """Turn a duration into what the messages hold; Envoy's resolution of a duration is finer, its timers' is not."""
    return dt.timedelta(microseconds=nanoseconds // 1000)


def extension(name: str, message: Message) -> core.TypedExtensionConfig:
    """Name and wrap an extension's configuration."""
    return core.TypedExtensionConfig(name=name, typed_config=pack(message))


def socket(address: Address) -> core.Address:
    """Write a socket address or a Unix socket."""
    if address.path:
        return core.Address(pipe=core.Pipe(path=address.path))
    return core.Address(socket_address=core.SocketAddress(address=address.host, port_value=address.port))


def exact(text: str, *, ignore_case: bool = False) -> matcher.StringMatcher:
    """Match one string."""
    return matcher.StringMatcher(exact=text, ignore_case=ignore_case)


def regex(pattern: str) -> matcher.StringMatcher:
    """Match a whole string by an RE2 pattern."""
    return matcher.StringMatcher(safe_regex=matcher.RegexMatcher(regex=pattern))


def header(name: str, value: str) -> core.HeaderValueOption:
    """Set a header, in place of any that is there."""
    return core.HeaderValueOption(
        header=core.HeaderValue(key=name, value=value),
        append_action=core.HeaderValueOptionHeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD,
    )


def struct(members: dict[str, Anything]) -> Struct:
    """Turn a JSON object into a Struct."""
    return Struct(fields={name: _value(member) for name, member in members.items()})


def _value(member: Anything) -> Value:
    if isinstance(member, bool):
        return Value(bool_value=member)
    if isinstance(member, dict):
        return Value(struct_value=struct(member))
    if isinstance(member, list):
        return Value(list_value=ListValue(values=list(map(_value, member))))
    if isinstance(member, int | float):
        return Value(number_value=float(member))
    return Value(string_value=str(member))


def grpc(cluster: str, timeout: int) -> core.GrpcService:
    """Call a gRPC service of a cluster; `timeout` in nanoseconds."""
    return core.GrpcService(envoy_grpc=core.GrpcServiceEnvoyGrpc(cluster_name=cluster), timeout=span(timeout))


def watched(directory: str, name: str) -> core.ConfigSource:
    """Read resources from a file, again whenever something is moved into its folder."""
    return core.ConfigSource(
        path_config_source=core.PathConfigSource(
            path=f"{directory}/{name}", watched_directory=core.WatchedDirectory(path=directory)
        ),
        resource_api_version=core.ApiVersion.V3,
    )
