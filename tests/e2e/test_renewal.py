"""A renewed certificate is shown by the running Envoy: nothing is restarted and no connection ends."""

import shutil
import ssl
import time

import pytest

from demo.pki import ensure_pki
from tests.e2e.stage import Stage
from tests.e2e.test_wealth import UPSTREAMS


@pytest.fixture
def stage():
    running = Stage("wealth", dict.fromkeys(UPSTREAMS, "SERVICES")).start("APP_PORT")
    yield running
    running.stop()


def shown(stage):
    """The certificate that a new connection sees, whoever signed it."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with stage.connect() as plain, context.wrap_socket(plain) as link:
        return link.getpeercert(binary_form=True)


def test_renewed_certificate_is_shown_to_new_connections_and_old_ones_go_on(stage):
    pki, fresh = stage.folder / "pki", stage.folder / "fresh"
    before = shown(stage)
    ensure_pki(fresh)
    context = ssl.create_default_context(cafile=str(pki / "edge-ca.pem"))
    context.check_hostname = False
    with stage.connect() as plain, context.wrap_socket(plain) as link, link.makefile("rb") as stream:
        for name in ("server.key", "server.pem"):
            shutil.move(fresh / name, pki / name)
        end = time.monotonic() + 15
        while shown(stage) == before:
            assert time.monotonic() < end
            time.sleep(0.05)
        link.sendall(b"GET /nowhere HTTP/1.1\r\nhost: api.byld.example\r\n\r\n")
        assert stream.readline().split()[1] == b"404"
