"""What several files of the room begin with: an authority, a clock, and a refresher of key sets with its doubles."""

import pytest

from authz.refresh import KeyRefresher
from tests.authz import pki
from tests.authz.fetching import Clock
from tests.authz.refreshing import Endpoints, Heard, Hours
from tests.authz.tokens import jwk, key_set


@pytest.fixture
def root():
    return pki.authority()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def hours():
    return Hours()


@pytest.fixture
def places():
    return Endpoints(id=key_set(jwk("ed")), b=key_set(jwk("rsa")))


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
async def refresher(hours, places, heard):
    made = KeyRefresher(clock=hours.clock, random=lambda: 0.0, sleep=hours.sleep, fetch=places.fetch, observer=heard)
    yield made
    await made.close()
