"""One server of the store: it is looked for until it is found, whatever goes wrong meanwhile."""

import asyncio

import pytest

from model.instant import SECOND
from ratelimit.node import Node
from ratelimit.script import Naming
from ratelimit.store import StoreAway


@pytest.mark.parametrize("fault", [ConnectionRefusedError(), ValueError("a fault of ours"), KeyError("?")], ids=repr)
async def test_no_fault_ends_the_search_for_a_server(fault):
    """A search that died would leave every decision to the instance's own share for ever."""
    changes, tries, enough = [], [], asyncio.Event()

    async def opener():
        tries.append(1)
        if len(tries) == 3:
            enough.set()
        raise fault

    node = Node(opener, Naming("p"), SECOND, changes.append)
    await node.start(0)
    async with asyncio.timeout(10):
        await enough.wait()
    await node.close()
    assert node.away
    assert changes[0].startswith(type(fault).__name__)


async def test_a_server_that_is_away_is_not_asked():
    async def opener():
        raise ConnectionRefusedError

    node = Node(opener, Naming("p"), SECOND, lambda _cause: None)
    with pytest.raises(StoreAway):
        await node.ask(None)
