"""A stop signal is heard from the beginning, also while the heavy libraries are being imported (bug report O-03)."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.sidecar.build import gateway, short_folder

PATIENCE = 30


def catches(pid, number):
    """Whether a process has a handler for a signal, as the kernel sees it (proc(5), SigCgt)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = int(next(line for line in lines if line.startswith("SigCgt")).split()[1], 16)
    return bool(mask >> (number - 1) & 1)


def test_a_stop_during_the_start_ends_with_zero():
    with short_folder() as folder:
        command = [sys.executable, "-m", "sidecar", "serve", "--document", gateway(folder), "--drain", "0s"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + PATIENCE
        while not catches(process.pid, signal.SIGTERM) and time.monotonic() < deadline:
            time.sleep(0.001)
        process.terminate()
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
