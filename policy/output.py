"""Compiled files on disk, in the way that Envoy watches for: written aside and moved into place."""

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.compat import StringIO
from ruamel.yaml.representer import SafeRepresenter

# Text that YAML 1.1 and 1.2 readers agree to be text when it stands without quotes (yaml-cpp reads `off` as a bool).
_PLAIN = re.compile(r"[A-Za-z_/@][A-Za-z0-9_./@-]*", re.ASCII)
_AMBIGUOUS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "inf", "nan"})


class _Representer(SafeRepresenter):
    def ignore_aliases(self, _data: object) -> bool:
        return True


def _represent_text(representer: SafeRepresenter, text: str) -> Any:
    plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _AMBIGUOUS
    return representer.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Representer.add_representer(str, _represent_text)


def write_yaml(content: Mapping[str, Any]) -> str:
    """Write plain data as block YAML that Envoy's reader and YAML 1.2 readers take alike."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.width = 1 << 30
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment] # typed by its default, None
    stream = StringIO()
    yaml.dump(content, stream)
    text: str = stream.getvalue()
    return text


def write_files(directory: Path, files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Write each file whose content changed, by an atomic rename that Envoy's watch sees; give the changed names.

    Secrets and clusters come before what refers to them, the bootstrap last: once it is there, all that it names is.
    Raises OSError; a file is then either the old or the new one as a whole.
    """
    directory.mkdir(parents=True, exist_ok=True)
    changed = []
    for name in sorted(files, key=_rank):
        data = write_yaml(files[name]).encode()
        target = directory / name
        if target.is_file() and target.read_bytes() == data:
            continue
        _replace(target, data)
        changed.append(name)
    return changed


def _rank(name: str) -> tuple[int, str]:
    order = ("sds", "cds", "rds", "lds", "envoy")
    return order.index(name.partition(".")[0].partition("-")[0]), name


def _replace(target: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
