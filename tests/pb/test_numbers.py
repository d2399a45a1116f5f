"""Our lean protos against an independent party: envoy-data-plane knows every field by number and type."""

import dataclasses
import importlib

import pytest

from pb import envoy_core_pb2, envoy_type_pb2, ext_authz_pb2, ext_proc_pb2, ratelimit_common_pb2, ratelimit_pb2

PEERS = {
    "envoy.config.core.v3": "envoy_data_plane.envoy.config.core.v3",
    "envoy.type.v3": "envoy_data_plane.envoy.type.v3",
    "envoy.service.auth.v3": "envoy_data_plane.envoy.service.auth.v3",
    "envoy.service.ext_proc.v3": "envoy_data_plane.envoy.service.ext_proc.v3",
    "envoy.service.ratelimit.v3": "envoy_data_plane.envoy.service.ratelimit.v3",
    "envoy.extensions.common.ratelimit.v3": "envoy_data_plane.envoy.extensions.common.ratelimit.v3",
}
FILES = [envoy_core_pb2, envoy_type_pb2, ext_authz_pb2, ext_proc_pb2, ratelimit_common_pb2, ratelimit_pb2]


def messages():
    def walk(descriptor):
        if not descriptor.GetOptions().map_entry:
            yield descriptor
        for nested in descriptor.nested_types:
            yield from walk(nested)

    for module in FILES:
        for descriptor in module.DESCRIPTOR.message_types_by_name.values():
            yield from walk(descriptor)


def peer(descriptor):
    package = descriptor.file.package
    name = descriptor.full_name.removeprefix(package + ".").replace(".", "").replace("TLSSession", "TlsSession")
    return getattr(importlib.import_module(PEERS[package]), name)


@pytest.mark.parametrize("descriptor", list(messages()), ids=lambda d: d.full_name)
def test_field_has_envoys_number(descriptor):
    """Each field that we read or write has the name and the number that Envoy's own API gives it."""
    theirs = {f.name: f.metadata["betterproto"].number for f in dataclasses.fields(peer(descriptor))}

    assert {f.name: f.number for f in descriptor.fields}.items() <= theirs.items()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (ratelimit_pb2.RateLimitResponse.Code, "envoy.service.ratelimit.v3:RateLimitResponseCode"),
        (ratelimit_pb2.RateLimitResponse.RateLimit.Unit, "envoy.service.ratelimit.v3:RateLimitResponseRateLimitUnit"),
        (
            envoy_core_pb2.HeaderValueOption.HeaderAppendAction,
            "envoy.config.core.v3:HeaderValueOptionHeaderAppendAction",
        ),
    ],
)
def test_enum_has_envoys_numbers(ours, theirs):
    """Enums agree by name and number."""
    package, name = theirs.split(":")
    enum = getattr(importlib.import_module(PEERS[package]), name)

    assert dict(ours.items()).items() <= {e.name: e.value for e in enum}.items()
