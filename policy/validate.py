"""Envoy's own word on the compiled files."""

import subprocess
from pathlib import Path

_SECONDS = 60


def validate_envoy(directory: Path, binary: Path) -> str | None:
    """Run `envoy --mode validate` on the bootstrap in a directory; give its complaint, None where it has none.

    Raises OSError where the binary cannot be run.
    """
    command = [str(binary), "--mode", "validate", "-c", str(directory / "envoy.yaml"), "--log-level", "error"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603 - no shell, our own arguments
    except subprocess.TimeoutExpired:
        return f"Envoy did not finish within {_SECONDS} s"
    return None if done.returncode == 0 else (done.stderr or done.stdout).strip()
