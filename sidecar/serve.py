"""The command `serve`, apart from the others: it begins sooner without what they import."""

import os
from argparse import Namespace

from sidecar.failure import CommandFailed
from sidecar.process import run_sidecar
from sidecar.rates import need_source, read_rates
from sidecar.settings import Settings


def serve_document(options: Namespace) -> int:
    """Serve until a stop signal."""
    need_source(options, "--document")
    rates = read_rates(options, os.environ)
    if options.document is not None and options.store:
        raise CommandFailed("--store goes without --document: the document's store says where limits are counted")
    return run_sidecar(
        Settings(
            document=options.document,
            envoy=options.envoy_dir.absolute() if options.envoy_dir else None,
            listen=options.listen,
            admin=options.admin,
            state=options.state,
            workers=options.workers,
            server=options.server,
            rates=rates,
            drain=options.drain,
            grace=options.grace,
            poll=options.poll,
            socket_mode=options.socket_mode,
            log_level=options.log_level,
            log_format=options.log_format,
            log_rate=options.log_rate,
            wait=options.wait,
        )
    )
