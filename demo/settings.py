"""Where the demo lives: folders, addresses and ports, each with the environment name that moves it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "open-banking"

ISSUER = "https://idp.open-banking.example"
AUDIENCE = "https://api.open-banking.example"
EDGE_NAME = "api.open-banking.example"

PORTS = {
    "PARTNER_PORT": 8443,
    "PUBLIC_PORT": 8444,
    "IDP_PORT": 8480,
    "SIDECAR_ADMIN_PORT": 8481,
    "LEDGER_JOURNAL_PORT": 8482,
    "PAYMENTS_JOURNAL_PORT": 8483,
    "ENVOY_ADMIN_PORT": 9901,
    "LEDGER_PORT": 50051,
    "PAYMENTS_PORT": 50052,
    "FUNDS_PORT": 50059,
}
"""Environment name of every port and its default. Nothing ever listens on FUNDS_PORT: it is the dead backend."""

HOSTS = ("PARTNER_HOST", "PUBLIC_HOST", "IDP_HOST", "SIDECAR_HOST", "LEDGER_HOST", "PAYMENTS_HOST")
"""Environment names of the hosts that a tour through a running demo talks to."""


class SettingInvalid(Exception):
    """An environment variable holds something that is not a port."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One demo: `run` is its folder, `document` its gateway document, `ports` and `hosts` are by environment name.

    `proxy` says that the planes expect a PROXY protocol header, as behind a network load balancer; `idp_tls` that the
    identity provider speaks HTTPS, as it must where the sidecar does not reach it over loopback.
    """

    run: Path
    document: Path
    ports: Mapping[str, int]
    hosts: Mapping[str, str] = field(default_factory=dict)
    proxy: bool = False
    idp_tls: bool = False

    @property
    def pki(self) -> Path:
        """The folder of certificates and keys."""
        return self.run / "pki"

    @property
    def descriptors(self) -> Path:
        """The backends' descriptor set, which the gateway's transcoder reads too."""
        return self.document.parent / "descriptors" / "open-banking.pb"

    @property
    def log(self) -> Path:
        """The folder of one log file per process."""
        return self.run / "log"

    @property
    def envoy(self) -> Path:
        """The folder of compiled Envoy files, which Envoy watches."""
        return self.run / "envoy"

    @property
    def sidecar(self) -> str:
        """The sidecar's gRPC address: a Unix socket beside everything else."""
        return f"unix:{self.run / 'sidecar.sock'}"

    def address(self, name: str) -> tuple[str, int]:
        """Give host and port of a name of PORTS without its "_PORT"."""
        return self.hosts.get(f"{name.split('_', maxsplit=1)[0]}_HOST", "127.0.0.1"), self.ports[f"{name}_PORT"]

    def url(self, name: str) -> str:
        """Give the HTTP address of "IDP", "SIDECAR_ADMIN", "ENVOY_ADMIN" or a backend's "…_JOURNAL"."""
        host, port = self.address(name)
        return f"{'https' if name == 'IDP' and self.idp_tls else 'http'}://{host}:{port}"

    def environment(self) -> dict[str, str]:
        """Give the variables that the gateway document reads (`${NAME}`), absolute and complete."""
        return {
            "WARDGATE_RUN": str(self.run),
            "WARDGATE_SIDECAR": self.sidecar,
            "IDP_URL": self.url("IDP"),
            "PROXY_PROTOCOL": str(self.proxy).lower(),
            **{name: str(port) for name, port in self.ports.items()},
        }


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from the environment: `WARDGATE_RUN`, `WARDGATE_DOCUMENT`, the names of PORTS and HOSTS.

    Raises SettingInvalid where a port is not one.
    """
    env = os.environ if environment is None else environment
    return Settings(
        run=Path(env.get("WARDGATE_RUN") or ROOT / "run").resolve(),
        document=Path(env.get("WARDGATE_DOCUMENT") or EXAMPLE / "gateway.yaml").resolve(),
        ports={name: _port(name, env.get(name), default) for name, default in PORTS.items()},
        hosts={name: env[name] for name in HOSTS if env.get(name)},
        proxy=env.get("PROXY_PROTOCOL", "").lower() == "true",
        idp_tls=env.get("IDP_TLS", "").lower() == "true",
    )


def _port(name: str, text: str | None, default: int) -> int:
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise SettingInvalid(f"{name}: found {text!r}, expected a port from 1 to 65535")
    return int(text)
