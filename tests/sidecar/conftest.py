"""The sidecar's tests run on the event loop that the sidecar runs on."""

import uvloop


def pytest_asyncio_loop_factories():
    return {"uvloop": uvloop.new_event_loop}
