"""Certificates by SDS, each in a file of its own: Envoy reads them anew when they are renewed, without a new listener.

What triggers it is a move into the folder of the certificate: `mv`, `rename`, or the swapped link of a mounted secret.
Key and certificate are read together, so that a pair is either the old one or the new one.
"""

import posixpath

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.transport_sockets.tls import v3 as tls

from policy.gateway import Document
from policy.typed import watched


def own_certificate(name: str, directory: str) -> list[tls.SdsSecretConfig]:
    """Refer to the certificate that is shown under this name ("plane-public", "upstream-ledger")."""
    return [tls.SdsSecretConfig(name=name, sds_config=watched(directory, f"sds-{name}.yaml"))]


def certificate_secrets(document: Document) -> dict[str, tls.Secret]:
    """Write the secrets of a document: the certificates of its planes, and those that its upstreams are shown."""
    pairs = {
        f"plane-{name}": (plane.tls.certificate, plane.tls.key)
        for name, plane in document.planes.items()
        if plane.tls is not None
    }
    pairs |= {
        f"upstream-{name}": (upstream.tls.certificate, upstream.tls.key)
        for name, upstream in document.upstreams.items()
        if upstream.tls is not None and upstream.tls.certificate is not None and upstream.tls.key is not None
    }
    return {name: _secret(name, *map(document.file, pair)) for name, pair in pairs.items()}


def _secret(name: str, certificate: str, key: str) -> tls.Secret:
    pair = tls.TlsCertificate(
        certificate_chain=core.DataSource(filename=certificate),
        private_key=core.DataSource(filename=key),
        watched_directory=core.WatchedDirectory(path=posixpath.dirname(certificate)),
    )
    return tls.Secret(name=name, tls_certificate=pair)
