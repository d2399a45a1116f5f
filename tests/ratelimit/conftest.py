"""Real Redis servers, started once for all tests of the room, emptied before each test that uses them."""

import pytest

from tests.ratelimit.servers import BINARY, MISSING, ClusterSet, SentinelSet, Server


def start(kind, folder):
    if BINARY is None:
        pytest.skip(MISSING)
    return kind(folder).start()


@pytest.fixture(scope="session")
def single(tmp_path_factory):
    folder = tmp_path_factory.mktemp("single")
    server = start(lambda place: Server(place, "--unixsocket", "s", "--enable-debug-command", "yes"), folder)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def sentinel(tmp_path_factory):
    servers = start(SentinelSet, tmp_path_factory.mktemp("sentinel"))
    yield servers
    servers.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    servers = start(ClusterSet, tmp_path_factory.mktemp("cluster"))
    yield servers
    servers.stop()
