"""Envoy's own word on the compiled files."""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

_SECONDS = 60


def validate_envoy(directory: Path, binary: Path) -> str | None:
    """Have Envoy validate the files of a directory; give its complaint, None where it has none.

    `--mode validate` reads no watched file, so the listeners, clusters and routes are put into the bootstrap first.
    Raises OSError where the files cannot be read or the binary cannot be run.
    """
    with tempfile.TemporaryDirectory(prefix="wardgate-") as folder:
        path = Path(folder) / "static.json"
        path.write_text(json.dumps(gather_static(directory)), encoding="utf-8")
        command = [str(binary), "--mode", "validate", "-c", str(path), "--log-level", "error"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603 - no shell, our own arguments
        except subprocess.TimeoutExpired:
            return f"Envoy did not finish within {_SECONDS} s"
    return None if done.returncode == 0 else (done.stderr or done.stdout).strip()


def gather_static(directory: Path) -> dict[str, Any]:
    """Make one static bootstrap of the compiled files of a directory."""
    bootstrap: dict[str, Any] = _load(directory / "envoy.yaml")
    listeners = _load(directory / "lds.yaml")["resources"]
    for listener in listeners:
        for chain in listener["filter_chains"]:
            for item in chain["filters"]:
                _inline_routes(item["typed_config"], directory)
    del bootstrap["dynamic_resources"]
    clusters = _load(directory / "cds.yaml")["resources"]
    for holder in (*(chain for each in listeners for chain in each["filter_chains"]), *clusters):
        _inline_secret(holder, directory)
    resources = {"listeners": listeners, "clusters": clusters}
    bootstrap["static_resources"] = {kind: list(map(_bare, items)) for kind, items in resources.items()}
    return bootstrap


def _inline_routes(manager: dict[str, Any], directory: Path) -> None:
    name = manager.pop("rds")["route_config_name"]
    (routes,) = _load(directory / f"rds-{name}.yaml")["resources"]
    manager["route_config"] = _bare(routes)


def _inline_secret(holder: dict[str, Any], directory: Path) -> None:
    common = holder.get("transport_socket", {}).get("typed_config", {}).get("common_tls_context", {})
    for config in common.pop("tls_certificate_sds_secret_configs", ()):
        (secret,) = _load(directory / f"sds-{config['name']}.yaml")["resources"]
        del secret["tls_certificate"]["watched_directory"]
        common["tls_certificates"] = [secret["tls_certificate"]]


def _bare(resource: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in resource.items() if name != "@type"}


def _load(path: Path) -> Any:
    return YAML(typ="safe").load(path)
