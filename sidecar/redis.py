"""A Redis client for what is no decision: the revocation feed. Limits have connections of their own (`ratelimit`)."""

import os
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio import Redis, Sentinel

from model.snapshot import Store
from sidecar.secret import unlock_store

CONNECT = 2.0
ANSWER = 5.0
"""Seconds; an answer may be one that waits for news (`authz.feed.BLOCK_MS`)."""


def open_client(store: Store) -> Redis:
    """Make a client of a store's server, or of the master that its Sentinels name; it connects when it is used.

    Raises ValueError for a secret that cannot be read.
    """
    store = unlock_store(store, os.environ)
    options: dict[str, Any] = {"socket_connect_timeout": CONNECT, "socket_timeout": ANSWER}
    credentials = {"username": store.username, "password": store.password}
    options |= {name: value for name, value in credentials.items() if value}
    if any(urlsplit(url).scheme == "rediss" for url in store.urls):
        files = {"ssl_ca_certs": store.ca, "ssl_certfile": store.certificate, "ssl_keyfile": store.key}
        options |= {name: path for name, path in files.items() if path}
    if store.topology != "sentinel":
        return Redis.from_url(store.urls[0], **options)
    places = [(parts.hostname or "", parts.port or 26379) for parts in map(urlsplit, store.urls)]
    sentinel: Any = Sentinel(places, socket_connect_timeout=CONNECT)  # type: ignore[no-untyped-call]  # bare in redis-py
    client: Redis = sentinel.master_for(store.service, **options)
    return client
