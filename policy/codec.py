"""Snapshots as JSON and back: one generic reading of the dataclasses in `model`, so that no field can be forgotten."""

import json
from dataclasses import asdict, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from model.snapshot import Snapshot


class SnapshotInvalid(Exception):
    """The bytes are not a snapshot of this version of wardgate."""


def dump_snapshot(snapshot: Snapshot) -> bytes:
    """Write a snapshot as JSON with sorted keys: equal snapshots give equal bytes."""
    return json.dumps(asdict(snapshot), sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def load_snapshot(data: bytes) -> Snapshot:
    """Read what `dump_snapshot` wrote; the result is equal to what was written. Raises SnapshotInvalid."""
    try:
        tree = json.loads(data, object_pairs_hook=_unique)
        snapshot = _read(Snapshot, tree)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise SnapshotInvalid(f"not a snapshot: {error}") from error
    assert isinstance(snapshot, Snapshot)  # noqa: S101 - tells the type checker what _read promises
    return snapshot


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key that stands twice")
    return result


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(kind: Any, value: Any) -> object:
    if is_dataclass(kind) and isinstance(kind, type):
        return _read_record(kind, value)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        (inner,) = [argument for argument in arguments if argument is not NoneType]
        return None if value is None else _read(inner, value)
    if origin is dict:
        if not isinstance(value, dict):
            raise TypeError(f"found {type(value).__name__}, expected a mapping")
        return {key: _read(arguments[1], item) for key, item in value.items()}
    if origin is tuple:
        return _read_tuple(arguments, value)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind(value)
    if type(value) is not kind:
        raise TypeError(f"found {type(value).__name__}, expected {kind.__name__}")
    return value


def _read_record(kind: type, value: Any) -> object:
    hints = _hints(kind)
    known = {field.name for field in fields(kind)}
    if not isinstance(value, dict) or not value.keys() <= known:
        raise TypeError(f"found {sorted(value)[:5]!r}, expected the fields of {kind.__name__}")
    return kind(**{name: _read(hints[name], item) for name, item in value.items()})


def _read_tuple(arguments: tuple[Any, ...], value: Any) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise TypeError(f"found {type(value).__name__}, expected a list")
    if arguments[-1] is Ellipsis:
        return tuple(_read(arguments[0], item) for item in value)
    if len(arguments) != len(value):
        raise TypeError(f"found {len(value)} entries, expected {len(arguments)}")
    return tuple(_read(argument, item) for argument, item in zip(arguments, value, strict=True))
