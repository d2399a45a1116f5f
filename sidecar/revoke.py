"""The commands that take credentials back, tell how far that has come, and make API keys."""

import asyncio
import json
import os
import secrets
import sys
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from redis.asyncio import Redis
from redis.exceptions import RedisError

from authz.apikey import hash_key
from authz.denylist import NEVER, Entry, Subject
from authz.feed import Coverage, publish_entry, read_coverage
from authz.keyrecord import read_record
from model.instant import SECOND, Duration
from model.snapshot import Store
from policy.document import load_document
from policy.fault import Faults
from policy.snapshot import compile_snapshot
from sidecar.failure import CommandFailed
from sidecar.redis import open_client

PROPAGATING = 3
"""The exit code while a live sidecar does not hold the revocation yet."""
LOOK = 0.05
"""Seconds between two looks at the coverage."""

Answer = TypeVar("Answer")


def revoke(options: Namespace) -> int:
    """Publish one revocation, or take it back, and say how far it has come."""
    entry = _entry(options)

    async def work(client: Redis) -> Coverage:
        version = await publish_entry(client, entry, remove=options.undo)
        print(f"{'taken back' if options.undo else 'revoked'}: {entry.line()} as version {version}")
        return await _watch(client, version, options.wait)

    return _tell(_run(options, work))


def show_coverage(options: Namespace) -> int:
    """Say which live sidecars hold a revocation, the newest one where none is named."""

    async def work(client: Redis) -> Coverage:
        return await _watch(client, options.version, options.wait)

    return _tell(_run(options, work))


def make_key(options: Namespace) -> int:
    """Make an API key: its record on standard output, for the key file, the key itself once on standard error."""
    key_id = options.id or secrets.token_urlsafe(9).replace("-", "_")
    key = f"{key_id}.{secrets.token_urlsafe(32)}"
    record: dict[str, object] = {"id": key_id, "sha256": hash_key(key), "client_id": options.client}
    if options.scope:
        record["scopes"] = options.scope
    if options.role:
        record["roles"] = options.role
    if options.tenant:
        record["tenant"] = options.tenant
    for name, instant in (("not_before", options.not_before), ("not_after", options.expires)):
        if instant is not None:
            record[name] = -(-instant // SECOND)
    if options.privileged:
        record["privileged"] = True
    line = json.dumps(record, separators=(",", ":"))
    try:
        read_record(line.encode())
    except ValueError as error:
        raise CommandFailed(str(error)) from error
    print(line)
    print(f"key, shown this once: {key}", file=sys.stderr)
    return 0


def _entry(options: Namespace) -> Entry:
    """Make the entry of what the options name; the grammar sees to it that they name one thing."""
    pairs = {
        Subject.TOKEN: options.token,
        Subject.SUBJECT: options.subject,
        Subject.KEY: options.kid,
        Subject.CERTIFICATE: options.certificate,
    }
    singles = {
        Subject.CLIENT: options.client,
        Subject.API_KEY: options.api_key,
        Subject.ORGANISATION: options.organisation,
    }
    subject, (scope, name) = next(
        (subject, value)
        for subject, value in [
            *pairs.items(),
            *((subject, value and ("", value)) for subject, value in singles.items()),
        ]
        if value
    )
    if subject is Subject.CERTIFICATE:
        name = name.lower().replace(":", "").lstrip("0")
    if not name:
        raise CommandFailed("a revocation needs a name that is not empty")
    return Entry(subject, name, scope, options.before, NEVER if options.expires is None else options.expires)


def _run(options: Namespace, work: Callable[[Redis], Awaitable[Answer]]) -> Answer:
    async def connected() -> Answer:
        client = open_client(_store(options))
        try:
            return await work(client)
        finally:
            await client.aclose()

    try:
        return asyncio.run(connected())
    except (RedisError, OSError, TimeoutError) as error:
        raise CommandFailed(f"the revocation feed does not answer: {error or type(error).__name__}") from error
    except ValueError as error:
        raise CommandFailed(str(error)) from error


def _store(options: Namespace) -> Store:
    """Find the feed: the address that was named, or the one of the document."""
    if options.redis:
        return Store(kind="redis", urls=(options.redis,))
    path: Path = options.document
    try:
        feed = compile_snapshot(load_document(path, os.environ)).revocation.feed
    except Faults as faults:
        raise CommandFailed(str(faults)) from faults
    if feed is None:
        raise CommandFailed(f"{path}: no revocation.redis; its sidecars read revocations from files only")
    return feed


async def _watch(client: Redis, version: str, patience: Duration | None) -> Coverage:
    """Look at the coverage once, or until it is complete or the time is up, and say each change."""
    end = time.monotonic() + (patience or 0) / SECOND
    said = None
    while True:
        coverage = await read_coverage(client, version)
        if patience and not coverage.complete and (coverage.held, coverage.live) != said:
            said = (coverage.held, coverage.live)
            print(f"propagating: {coverage.held} of {coverage.live} workers", flush=True)
        if coverage.complete or time.monotonic() >= end:
            return coverage
        await asyncio.sleep(LOOK)


def _tell(coverage: Coverage) -> int:
    if coverage.complete:
        print(f"covered: version {coverage.version} is held by all {coverage.live} live workers")
        return 0
    if not coverage.live:
        print(f"propagating: no live worker follows the feed (version {coverage.version})")
        return PROPAGATING
    behind = ", ".join(coverage.behind)
    print(f"propagating: {coverage.held} of {coverage.live} workers hold version {coverage.version}; not yet: {behind}")
    return PROPAGATING
