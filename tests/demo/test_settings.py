"""The demo's place and ports are read from the environment."""

import pytest

from demo.settings import PORTS, SettingInvalid, read_settings


def test_defaults_hold_where_nothing_is_set():
    settings = read_settings({})
    assert settings.ports == PORTS
    assert settings.address("PARTNER") == ("127.0.0.1", 8443)
    assert not settings.proxy


def test_ports_and_hosts_can_be_moved():
    settings = read_settings({"LEDGER_PORT": "1234", "LEDGER_HOST": "ledger", "SIDECAR_HOST": "sidecar"})
    assert settings.address("LEDGER") == ("ledger", 1234)
    assert settings.url("SIDECAR_ADMIN") == "http://sidecar:8481"
    assert settings.url("LEDGER_JOURNAL") == "http://ledger:8482"


@pytest.mark.parametrize("text", ["0", "65536", "-1", "8443x", "٣", "1.5"])
def test_what_is_no_port_is_named_with_its_variable(text):
    with pytest.raises(SettingInvalid, match="PARTNER_PORT"):
        read_settings({"PARTNER_PORT": text})


def test_the_document_gets_absolute_paths_and_every_port():
    environment = read_settings({"WARDGATE_RUN": "some/where"}).environment()
    assert environment["WARDGATE_RUN"].startswith("/")
    assert set(PORTS) <= set(environment)
