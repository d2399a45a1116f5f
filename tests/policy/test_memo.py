"""What is remembered of a message class is what betterproto2 would work out each time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from envoy_data_plane.envoy.config.core import v3 as core
from pydantic import ValidationError

from policy.document import load_document
from policy.envoy import compile_envoy
from tests.policy.build import MINIMAL

ROOT = Path(__file__).parent.parent.parent
# A process of its own, in which the originals are put back before anything is compiled.
ORIGINAL = """
import sys, json
from betterproto2 import Message
kept = Message.__dict__["_type_hints"], Message.__dict__["_validate"]
from policy.envoy import compile_envoy
assert Message.__dict__["_validate"] is not kept[1]
Message._type_hints, Message._validate = kept
from pathlib import Path
from policy.document import load_document
print(json.dumps(compile_envoy(load_document(Path(sys.argv[1]), {}), Path("/etc/envoy")), sort_keys=True))
"""


def test_compiled_files_are_those_of_the_originals(tmp_path):
    """One document, compiled by the library as it is and as it is here."""
    document = tmp_path / "gateway.yaml"
    document.write_text(MINIMAL, encoding="utf-8")
    command = [sys.executable, "-W", "ignore", "-c", ORIGINAL, str(document)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    here = compile_envoy(load_document(document, {}), Path("/etc/envoy"))

    assert json.loads(done.stdout) == json.loads(json.dumps(here))


def test_wrong_value_is_still_refused():
    """A message whose field was set to a wrong type is not written."""
    message = core.SocketAddress(address="127.0.0.1", port_value=1)
    message.port_value = -1
    with pytest.raises(ValidationError):
        bytes(message)
