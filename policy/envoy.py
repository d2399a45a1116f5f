"""The document as Envoy's configuration: a bootstrap, and the files of listeners, clusters and routes it watches."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from betterproto2 import Message
from envoy_data_plane.envoy.config.bootstrap import v3 as bootstrap
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.overload import v3 as overload
from envoy_data_plane.envoy.extensions.resource_monitors.downstream_connections import v3 as connections
from envoy_data_plane.envoy.service.discovery import v3 as discovery

from policy.cluster import sidecar_cluster, upstream_cluster
from policy.gateway import Document
from policy.listener import plane_listener
from policy.routing import route_configuration
from policy.secrets import certificate_secrets
from policy.typed import pack, socket, struct, watched

_RUNTIME = {
    # Ends ext_proc streams in an orderly way instead of resetting each one, which HTTP/2 servers count as an attack.
    "envoy.reloadable_features.ext_proc_graceful_grpc_close": True,
    # Lists of hosts and origins become patterns, which Envoy refuses beyond 100 steps: five names. None is a caller's.
    "re2.max_program_size.error_level": 1 << 20,
}


def compile_envoy(document: Document, directory: Path | None = None) -> dict[str, dict[str, Any]]:
    """Compile Envoy's half of a document: file name to plain content.

    `directory` is where Envoy will find the files; the working directory of Envoy where it is None.
    """
    folder = str(directory) if directory is not None else "."
    clusters = [sidecar_cluster(document)]
    clusters += [upstream_cluster(name, upstream, document, folder) for name, upstream in document.upstreams.items()]
    listeners = [plane_listener(name, plane, document, folder) for name, plane in document.planes.items()]
    files = {"envoy.yaml": _plain(_bootstrap(document, folder))}
    files["cds.yaml"] = _resources(clusters)
    files["lds.yaml"] = _resources(listeners)
    for name, secret in certificate_secrets(document).items():
        files[f"sds-{name}.yaml"] = _resources([secret])
    for name, plane in document.planes.items():
        files[f"rds-{name}.yaml"] = _resources([route_configuration(name, plane, document)])
    return files


def _bootstrap(document: Document, folder: str) -> bootstrap.Bootstrap:
    limit = connections.DownstreamConnectionsConfig(max_active_downstream_connections=document.limits.connections)
    monitor = overload.ResourceMonitor(
        name="envoy.resource_monitors.global_downstream_max_connections", typed_config=pack(limit)
    )
    return bootstrap.Bootstrap(
        node=core.Node(id=document.gateway, cluster=document.gateway),
        admin=bootstrap.Admin(address=socket(document.admin)),
        dynamic_resources=bootstrap.BootstrapDynamicResources(
            lds_config=watched(folder, "lds.yaml"), cds_config=watched(folder, "cds.yaml")
        ),
        overload_manager=overload.OverloadManager(resource_monitors=[monitor]),
        layered_runtime=bootstrap.LayeredRuntime(
            layers=[
                bootstrap.RuntimeLayer(name="compiled", static_layer=struct(_RUNTIME)),
            ]
        ),
    )


def _resources(resources: Sequence[Message]) -> dict[str, Any]:
    """Write the resources as a discovery response whose version is the digest of its content."""
    content = _plain(discovery.DiscoveryResponse(resources=[pack(resource) for resource in resources]))
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return {"version_info": digest[:16], **content}


def _plain(message: Message) -> dict[str, Any]:
    content: dict[str, Any] = message.to_dict(casing=_field_name)  # type: ignore[arg-type] # Casing holds functions too
    return content


def _field_name(name: str) -> str:
    """Keep the field's name of the .proto file: Casing.SNAKE would make `consecutive_5_xx` of `consecutive_5xx`."""
    return name.rstrip("_")
