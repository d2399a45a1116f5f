"""Descriptor sets cut down to what one transcoder needs."""

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError


class DescriptorInvalid(Exception):
    """The bytes are not a descriptor set, or it lacks a service."""


def read_services(data: bytes) -> frozenset[str]:
    """List the full names of the services of a descriptor set. Raises DescriptorInvalid."""
    return frozenset(f"{file.package}.{service.name}" for file in _read(data).file for service in file.service)


def cut_descriptors(data: bytes, services: tuple[str, ...]) -> bytes:
    """Keep the files that define the services, with all that they import, without source comments.

    Raises DescriptorInvalid where a service is missing.
    """
    files = {file.name: file for file in _read(data).file}
    kept: dict[str, FileDescriptorProto] = {}
    for service in services:
        homes = [file for file in files.values() for item in file.service if f"{file.package}.{item.name}" == service]
        if not homes:
            raise DescriptorInvalid(f"no service {service}")
        _keep(homes[0], files, kept)
    return FileDescriptorSet(file=kept.values()).SerializeToString(deterministic=True)


def _keep(
    file: FileDescriptorProto, files: dict[str, FileDescriptorProto], kept: dict[str, FileDescriptorProto]
) -> None:
    if file.name in kept:
        return
    for name in file.dependency:
        if name not in files:
            raise DescriptorInvalid(f"no file {name}, which {file.name} imports")
        _keep(files[name], files, kept)
    bare = FileDescriptorProto()
    bare.CopyFrom(file)
    bare.ClearField("source_code_info")
    kept[file.name] = bare


def _read(data: bytes) -> FileDescriptorSet:
    try:
        return FileDescriptorSet.FromString(data)
    except DecodeError as error:
        raise DescriptorInvalid("not a descriptor set") from error
