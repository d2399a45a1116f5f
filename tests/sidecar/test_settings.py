"""What follows from the command line and the address."""

import pytest

from sidecar.server import AUTO, AddressUnusable, pick_server

NEAR = ["unix:/run/wardgate/sidecar.sock", "127.0.0.1:9001", "127.8.8.8:1", "[::1]:9001", "localhost:9001"]
FAR = ["0.0.0.0:9001", "[::]:9001", "192.0.2.7:9001", "sidecar:9001", "localhost.example:9001"]


@pytest.mark.parametrize(("address", "server"), [*((near, "zttp") for near in NEAR), *((far, "grpcio") for far in FAR)])
def test_server_is_chosen_by_who_can_reach_it_where_the_choice_is_open(address, server):
    """Decision 62."""
    assert pick_server(AUTO, address) == server


@pytest.mark.parametrize("server", ["zttp", "grpcio"])
def test_server_that_is_named_is_taken(server):
    assert {pick_server(server, address) for address in [*NEAR, *FAR]} == {server}


def test_an_address_that_is_none_is_refused_before_any_server_is_chosen():
    with pytest.raises(AddressUnusable, match="expected unix:/path or host:port"):
        pick_server(AUTO, "nowhere")
