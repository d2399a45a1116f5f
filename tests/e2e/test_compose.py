"""The gateway in containers: comes up healthy by itself, takes the tour, stops quickly (bug reports O-01, O-03, O-04).

Needs a Docker engine that DOCKER_HOST (or the default socket) reaches, and the compose command.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import docker
import pytest

from demo.settings import ROOT

pytestmark = [pytest.mark.compose, pytest.mark.timeout(900)]

ENVIRONMENT = {
    **os.environ,
    "COMPOSE_PROJECT_NAME": "wardgate-test",
    "PARTNER_PORT": "",  # any free port of the host
    "PUBLIC_PORT": "",
}
HEALTHY_WITHIN = 60  # seconds, without the building of the image
STOPPED_WITHIN = 5


def reason_to_skip():
    if shutil.which("docker") is None:
        return "there is no docker command"
    # asked with the command: the package leaves a socket open where it fails
    reached = subprocess.run(["docker", "version"], capture_output=True, timeout=20, check=False).returncode == 0
    return None if reached else "no Docker engine can be reached"


@pytest.fixture(scope="module")
def engine():
    reason = reason_to_skip()
    if reason is not None:
        pytest.skip(reason)
    client = docker.from_env()
    yield client
    client.close()


def compose(*words, check=True):
    command = ["docker", "compose", *words]
    return subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, check=check, capture_output=True, text=True)


@pytest.fixture(scope="module")
def up(engine):
    """The project, up and healthy: the seconds that it took once the image was built."""
    compose("build", "--quiet")
    try:
        began = time.monotonic()
        started = compose("up", "-d", "--wait", "--pull", "never", check=False)
        took = time.monotonic() - began
        assert started.returncode == 0, started.stderr + compose("logs", check=False).stdout[-5000:]
        yield took
    finally:
        compose("--profile", "tour", "down", "-v", "--timeout", "5", check=False)


def container(engine, service):
    return engine.containers.get(compose("ps", "-a", "-q", service).stdout.strip())


def test_every_service_turns_healthy_in_time(engine, up):
    assert up < HEALTHY_WITHIN
    services = compose("ps", "--services").stdout.split()
    states = {name: container(engine, name).attrs["State"]["Health"]["Status"] for name in services}
    assert {"healthy"} == set(states.values()), states
    assert {"idp", "ledger", "payments", "redis", "sidecar", "envoy"} == set(services)


def test_no_service_of_ours_runs_as_root(engine, up):
    for name in ("idp", "ledger", "payments", "sidecar"):
        assert container(engine, name).exec_run(["id", "-u"]).output.strip() != b"0"


def test_ports_are_published_on_loopback_alone(up):
    assert compose("port", "envoy", "8443").stdout.startswith("127.0.0.1:")


def test_the_tour_through_containers_is_as_expected(up):
    tour = compose("run", "--rm", "tour", check=False)
    assert tour.returncode == 0, tour.stdout + tour.stderr


def test_the_sidecar_stops_quickly_with_status_0_and_comes_back(engine, up):
    sidecar = container(engine, "sidecar")
    began = time.monotonic()
    sidecar.stop(timeout=10)
    took = time.monotonic() - began
    sidecar.reload()
    assert took < STOPPED_WITHIN
    assert sidecar.attrs["State"]["ExitCode"] == 0
    compose("up", "-d", "--wait", "--pull", "never")
    assert compose("run", "--rm", "tour", check=False).returncode == 0


def test_a_sidecar_that_is_killed_is_restarted_by_itself(engine, up):
    sidecar = container(engine, "sidecar")
    before = sidecar.attrs["State"]
    command = Path(f"/proc/{before['Pid']}/cmdline")
    if not command.exists() or b"wardgate" not in command.read_bytes():
        pytest.skip("the engine's processes are not those of this machine")
    os.kill(before["Pid"], signal.SIGKILL)  # an order to the engine would count as a wish to have it stopped
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        sidecar.reload()
        state = sidecar.attrs["State"]
        if state["StartedAt"] != before["StartedAt"] and state.get("Health", {}).get("Status") == "healthy":
            return
        time.sleep(0.5)
    pytest.fail(f"not back: {sidecar.attrs['State']}")
