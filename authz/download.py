"""One JWK set document fetched from where its issuer publishes it: an https URL, loopback http, or a file.

Everything that an endpoint can do wrong is bounded here: redirects are not followed, a body is cut off at BODY_LIMIT
both as sent and as unpacked, and the whole exchange has one deadline.
"""

import asyncio
import ipaddress
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import aiohttp

BODY_LIMIT = 512 * 1024
"""Octets of a key set, unpacked."""
DEADLINE = 5.0
"""Seconds for one exchange, from the connection to the last octet of the body."""

_GZIP_OR_ZLIB = 47  # zlib's own code for "tell the two apart by their first octets"
_MAX_AGE = re.compile(r"(?:^|,)\s*max-age\s*=\s*\"?(\d{1,10})", re.IGNORECASE)
_NOT_STORED = re.compile(r"(?:^|,)\s*no-(?:store|cache)\s*(?:,|$)", re.IGNORECASE)


class DownloadFailed(Exception):
    """The document could not be had; the text says why."""


@dataclass(frozen=True, slots=True)
class Download:
    """A document and how long its server says it is fresh, in seconds; None where it does not say."""

    body: bytes
    fresh_for: int | None = None


def open_session(connections: int = 1) -> aiohttp.ClientSession:
    """Open a session: so many connections a host, no cookies, no proxy taken from the environment."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit_per_host=connections),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept": "application/jwk-set+json, application/json", "Accept-Encoding": "gzip"},
        auto_decompress=False,
        trust_env=False,
    )


def is_safe(url: str) -> bool:
    """Tell whether keys may be taken from a URL: file, https, or http on a loopback host, where no wire is crossed."""
    try:
        address = urlsplit(url)
        if address.scheme == "file":
            return address.netloc in ("", "localhost")
        host = address.hostname or ""
        return bool(host) and (address.scheme == "https" or (address.scheme == "http" and _is_loopback(host)))
    except ValueError:
        return False


async def download_keys(session: aiohttp.ClientSession, url: str, deadline: float = DEADLINE) -> Download:
    """Fetch a key set within `deadline` seconds. Raises DownloadFailed for every way in which that can fail."""
    if not is_safe(url):
        raise DownloadFailed("not a URL that keys may be taken from: https, loopback http or file")
    try:
        if url.startswith("file:"):
            return Download(await asyncio.to_thread(_read_file, url))
        async with asyncio.timeout(deadline), session.get(url, allow_redirects=False) as response:
            return await _read_response(response)
    except (aiohttp.ClientError, OSError, ValueError, zlib.error) as error:
        raise DownloadFailed(f"{type(error).__name__}: {error}"[:200]) from error


async def _read_response(response: aiohttp.ClientResponse) -> Download:
    if response.status != 200:
        raise DownloadFailed(f"status {response.status}")
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > BODY_LIMIT:
            raise DownloadFailed(f"more than {BODY_LIMIT} octets")
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    fresh_for = read_freshness(",".join(response.headers.getall("Cache-Control", ())))
    return Download(_unpack_body(bytes(body), coding), fresh_for)


def _unpack_body(body: bytes, coding: str) -> bytes:
    """Undo the content coding (RFC 9110 section 8.4.1), never past BODY_LIMIT octets."""
    if coding in ("", "identity"):
        return body
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise DownloadFailed(f"content coding {coding[:20]!r}")
    unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
    unpacked = unpacker.decompress(body, BODY_LIMIT + 1)
    if len(unpacked) > BODY_LIMIT:
        raise DownloadFailed(f"more than {BODY_LIMIT} octets once unpacked")
    if not unpacker.eof:
        raise DownloadFailed("the packed body is cut short")
    return unpacked


def read_freshness(control: str) -> int | None:
    """Read seconds of freshness out of Cache-Control (RFC 9111 section 5.2.2); None where it says nothing."""
    if _NOT_STORED.search(control):
        return 0
    age = _MAX_AGE.search(control)
    return None if age is None else int(age[1])


def _read_file(url: str) -> bytes:
    path = Path(url2pathname(urlsplit(url).path))
    with path.open("rb") as file:
        body = file.read(BODY_LIMIT + 1)
    if len(body) > BODY_LIMIT:
        raise DownloadFailed(f"more than {BODY_LIMIT} octets")
    return body


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
