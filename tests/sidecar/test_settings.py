"""What follows from the command line and the address."""

import pytest

from sidecar.settings import AUTO, pick_server


@pytest.mark.parametrize(
    ("address", "server"),
    [("unix:/run/wardgate/sidecar.sock", "h2corn"), ("127.0.0.1:9001", "grpcio"), ("[::1]:9001", "grpcio")],
)
def test_server_is_chosen_by_the_address_where_the_choice_is_open(address, server):
    """Decision 62: what only grpc.aio does matters between machines."""
    assert pick_server(AUTO, address) == server


@pytest.mark.parametrize("server", ["grpcio", "h2corn", "zttp"])
def test_server_that_is_named_is_taken(server):
    assert pick_server(server, "unix:/s") == pick_server(server, "127.0.0.1:1") == server
