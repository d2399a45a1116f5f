"""`wardgate serve --ratelimit-config DIR` as a process: rules come from a folder and are taken up while it runs."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from pb.ratelimit_pb2 import RateLimitResponse
from tests.e2e.limited import METHOD, PATIENCE
from tests.ratelimit.asking import request
from tests.sidecar.build import gateway, short_folder

pytestmark = pytest.mark.e2e

AT_ONCE = [(f"grpc.{which}_reconnect_backoff_ms", 50) for which in ("initial", "min", "max")]

RULES = """
domain: reload
descriptors:
  - key: key1
    rate_limit: {{unit: hour, requests_per_unit: {count}}}
"""


@pytest.fixture
def folder():
    with short_folder() as made:
        (made / "rules").mkdir()
        yield made


@pytest.fixture
def limit(folder: Path):
    """The limit that the running service tells for a fresh key; None where there is none."""
    write_rules(folder, RULES.format(count=50))
    socket = f"unix:{folder / 'rls.sock'}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "sidecar", "serve", "--document", gateway(folder), "--listen", socket),
                *("--ratelimit-config", folder / "rules", "--poll", "20ms", "--drain", "0s"),
            ],
            stdout=log,
            stderr=log,
        )
    try:
        with grpc.insecure_channel(socket, AT_ONCE) as channel:
            try:
                grpc.channel_ready_future(channel).result(PATIENCE)
            except grpc.FutureTimeoutError:
                pytest.fail((folder / "log").read_text())
            yield make_asker(channel)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def make_asker(channel: grpc.Channel) -> Callable[[], int | None]:
    call = channel.unary_unary(METHOD)
    asked = iter(range(1_000_000))

    def ask() -> int | None:
        data = call(request("reload", [("key1", str(next(asked)))]).SerializeToString(), timeout=PATIENCE)
        status = RateLimitResponse.FromString(data).statuses[0]
        return status.current_limit.requests_per_unit if status.HasField("current_limit") else None

    return ask


def write_rules(folder: Path, text: str) -> None:
    fresh = folder / ".fresh.yaml"
    fresh.write_text(text)
    fresh.replace(folder / "rules" / "reload.yaml")


def await_limit(ask: Callable[[], int | None], expected: int | None) -> None:
    """Ask until the answer is the expected one; every answer on the way is that of whole rules."""
    for _ in range(20_000):
        if ask() == expected:
            return
    pytest.fail(f"the limit never became {expected}")


def test_rules_of_a_folder_are_served_and_an_edit_is_taken_up(folder, limit):
    assert limit() == 50
    write_rules(folder, RULES.format(count=7))
    await_limit(limit, 7)


def test_a_bad_file_is_refused_with_its_place_and_the_old_rules_stay(folder, limit):
    write_rules(folder, RULES.format(count="many"))
    log = folder / "log"
    for _ in range(20_000):
        assert limit() == 50
        if "found 'many', expected a whole number" in log.read_text():
            break
    else:
        pytest.fail(log.read_text())
    assert "reload.yaml:5:" in log.read_text()
    write_rules(folder, RULES.format(count=9))
    await_limit(limit, 9)
