"""How to reach Redis: a server by its URL, the master that Sentinel names, or the masters of a Cluster.

All of it runs in the background. A decision only ever meets a connection that is already open.
"""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlsplit

from redis.asyncio import Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.connection import parse_url
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from model.snapshot import Store as Settings
from ratelimit.node import Opener, check, exchange, name_cause
from ratelimit.store import StoreAway

Address = tuple[str, int]
SENTINEL_PATIENCE = 0.25


def connect_options(settings: Settings, url: str) -> dict[str, Any]:
    """Read a URL and the settings into redis-py's connection arguments. Raises ValueError for a URL it cannot read."""
    options: dict[str, Any] = dict(parse_url(url))
    scheme = urlsplit(url).scheme
    if scheme == "unix":
        options["connection_class"] = UnixDomainSocketConnection
    elif scheme == "rediss":
        options["connection_class"] = SSLConnection
        files = {"ssl_ca_certs": settings.ca, "ssl_certfile": settings.certificate, "ssl_keyfile": settings.key}
        options |= {name: path for name, path in files.items() if path}
        options["ssl_min_version"] = ssl.TLSVersion.TLSv1_2
    credentials = {"username": settings.username, "password": settings.password}
    options |= {name: value for name, value in credentials.items() if value}
    return options | {
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": None,
        "socket_connect_timeout": None,  # the caller bounds the whole of connecting
        "protocol": 2,
        "driver_info": None,
    }


async def connect(options: Mapping[str, Any]) -> Connection:
    """Open a connection, authenticated and with its database selected. Raises RedisError or OSError."""
    arguments = dict(options)
    kind = arguments.pop("connection_class", Connection)
    connection = cast("Connection", kind(**arguments))
    try:
        await connection.connect()  # type: ignore[no-untyped-call]  # redis-py leaves it bare
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    return connection


async def ask(connection: Connection, *command: str) -> Any:
    """Send one command and return its reply; an error reply is raised."""
    (reply,) = await exchange(connection, [command])
    check(reply)
    return reply


def open_single(settings: Settings) -> Opener:
    """Connect to the one server of the settings."""
    options = connect_options(settings, settings.urls[0])

    async def opener() -> Connection:
        return await connect(options)

    return opener


def open_sentinel(settings: Settings) -> Opener:
    """Connect to the master of `settings.service`, as the first Sentinel that knows one names it.

    The credentials of the settings are those of the master; a Sentinel's own stand in its URL. The database number is
    that of the first URL.
    """
    anonymous = replace(settings, username="", password="")
    sentinels = [connect_options(anonymous, url) for url in settings.urls]
    master = connect_options(settings, settings.urls[0])

    async def opener() -> Connection:
        host, port = await _find_master(sentinels, settings.service)
        connection = await connect(master | {"host": host, "port": port})
        try:
            check_master(await ask(connection, "ROLE"))
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    return opener


def check_master(role: Sequence[bytes]) -> None:
    """Raise StoreAway unless the ROLE is that of a master: during a failover Sentinel may still name the old one."""
    if role[0] != b"master":
        raise StoreAway("the server that Sentinel names is no master yet")


async def _find_master(sentinels: Sequence[Mapping[str, Any]], service: str) -> Address:
    causes = []
    for options in sentinels:
        try:
            async with asyncio.timeout(SENTINEL_PATIENCE):
                found = await ask_once(options, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)
        except (OSError, RedisError, TimeoutError) as error:
            causes.append(name_cause(error))
            continue
        if found is not None:
            return found[0].decode(), int(found[1])
        causes.append(f"no master is known by the name {service!r}")
    raise StoreAway("; ".join(causes))


async def ask_once(options: Mapping[str, Any], *command: str) -> Any:
    """Connect, send one command, disconnect."""
    connection = await connect(options)
    try:
        return await ask(connection, *command)
    finally:
        await connection.disconnect(nowait=True)
