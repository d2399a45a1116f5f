"""CRLs and OCSP responses, fetched in the background; no request waits for one.

What the document names is fetched from anywhere. What a certificate names is fetched only after its path held and only
from hosts that the document lists, because the URL is a stranger's (pitfall 35: SSRF). A fetch that fails, or brings
something that cannot be used, leaves what is known in place.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

import aiohttp
from cryptography import x509

from authz.certificate import Trust
from authz.crl import MAX_CRL, StatusInvalid, read_crl
from authz.ocsp import MAX_RESPONSE, write_request
from authz.parsed import Parsed
from authz.status import Key, Revocations
from model.instant import HOUR, MINUTE, SECOND, Duration, Instant

DEADLINE = 10.0
"""Seconds for one exchange, from the connection to the last octet."""
FILE_PERIOD = SECOND
LIST_PERIOD = HOUR
"""A list is fetched again after this, or after half of what is left of its window, whichever is sooner."""
RETRY = MINUTE
"""The pause after a failure of a source, and after each look at one certificate's status."""
TICK = 0.5
"""Seconds between two looks at what is due."""
MAX_LEARNED = 64
"""CRL sources learned from certificates."""
MAX_PAUSED = 4096
PORTS = {"http": 80, "https": 443}

Transfer = Callable[[str, bytes | None, int], Awaitable[bytes]]
"""Fetches a URL: GET, or POST of an OCSP request; at most so many octets. Raises FetchFailed."""


class FetchFailed(Exception):
    """The document could not be had; the text says why."""


class Observer(Protocol):
    """Hears what happens to each source, for metrics and logs."""

    def status_loaded(self, source: str, seconds_left: int) -> None:
        """Note a list or a response that was taken over, and how long it holds."""

    def status_failed(self, source: str, why: str) -> None:
        """Note a source that failed or brought nothing usable; what was known stays."""


class Silent:
    """An observer that nobody listens to."""

    def status_loaded(self, source: str, seconds_left: int) -> None:
        """Say nothing."""

    def status_failed(self, source: str, why: str) -> None:
        """Say nothing."""


@dataclass(slots=True)
class _Source:
    """One list: where it stands, when it is due, how its file looked when it was read last, and what was wrong then."""

    url: str
    path: Path | None
    due: Instant = 0
    mark: tuple[int, ...] = ()
    fault: str = ""


class StatusFetcher:
    """Keeps a book of revocations fresh. Runs in one event loop; `start` begins, `close` ends it.

    `clock` gives nanoseconds since the epoch, `random` a float from 0 to 1 that spreads the fetches of many sidecars.
    `transfer` replaces the network in tests.
    """

    def __init__(
        self,
        book: Revocations,
        *,
        clock: Callable[[], Instant],
        random: Callable[[], float],
        observer: Observer | None = None,
        transfer: Transfer | None = None,
    ) -> None:
        self.book = book
        self._clock = clock
        self._random = random
        self._observer: Observer = observer or Silent()
        self._transfer = transfer or self._exchange
        self._session: aiohttp.ClientSession | None = None
        self._sources: dict[str, _Source] = {}
        self._learned: dict[str, _Source] = {}
        self._gone: set[str] = set()
        self._paused: dict[Key, Instant] = {}
        self._anchors: tuple[bytes, ...] = ()
        self._issuers: tuple[Parsed, ...] = ()
        self._hosts: frozenset[str] = frozenset()
        self._task: asyncio.Task[None] | None = None

    def apply(self, sources: Iterable[str], hosts: Iterable[str], issuers: Sequence[Parsed]) -> None:
        """Take over a document: its CRL sources, the hosts that certificates may name, and the anchors of all planes.

        New sources are read at the next refresh, and all of them where the anchors are others. Only then are the lists
        forgotten of sources that are named no more, so that the policy in force until then keeps what it decides from.
        """
        wanted = tuple(dict.fromkeys(sources))
        self._hosts = frozenset(host.lower() for host in hosts)
        learned = [url for url in self._learned if url not in wanted and self._allowed(url)]
        self._gone = (self._gone | {*self._sources, *self._learned}) - {*wanted, *learned}
        anchors = tuple(dict.fromkeys(issuer.der for issuer in issuers))
        if anchors != self._anchors:
            self._anchors, self._issuers = anchors, tuple(issuers)
            self._sources, self._learned = {}, {url: _Source(url, None) for url in learned}
        self._sources = {url: self._sources.get(url) or _Source(url, _path_of(url)) for url in wanted}
        self._learned = {url: self._learned[url] for url in learned}
        self._paused.clear()

    def follow(self, trusts: Iterable[Trust]) -> None:
        """Apply what the planes of a snapshot ask for: their sources, hosts and anchors, where revocation counts."""
        asking = [trust for trust in trusts if trust.profile.revocation != "off"]
        self.apply(
            (source for trust in asking for source in trust.profile.crls),
            (host for trust in asking for host in trust.profile.ocsp_hosts),
            [anchor for trust in asking for anchor in trust.anchors],
        )

    async def start(self, patience: float = DEADLINE) -> None:
        """Read what is due, for at most so many seconds, and keep it fresh from then on; may be called again.

        A source that fails, or is slow, keeps nobody from starting.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self.refresh()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="revocation status")

    async def close(self) -> None:
        """Stop, and close the connections."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def refresh(self) -> None:
        """Fetch what is due: lists first, then the status of certificates that were asked for."""
        now = self._clock()
        due = [each for each in (*self._sources.values(), *self._learned.values()) if each.due <= now]
        await asyncio.gather(*(self._load(each, now) for each in due))
        while self._gone:
            self.book.drop_source(self._gone.pop())
        wanted = [pair for key, pair in self.book.wanted.items() if self._paused.get(key, 0) <= now]
        self.book.wanted.clear()
        await asyncio.gather(*(self._look_up(*pair) for pair in wanted))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            await self.refresh()

    async def _load(self, source: _Source, now: Instant) -> None:
        try:
            data = await self._read(source)
            if data is not None:
                crl = await asyncio.to_thread(read_crl, data, self._issuers)
                self.book.put_crl(source.url, crl)
                source.fault = ""
                self._observer.status_loaded(source.url, self.book.seconds_left(now)[source.url])
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one source, the others are kept fresh
            fault = _name_fault(error)
            if fault != source.fault:  # a file is looked at every second: say a fault once
                source.fault = fault
                self._observer.status_failed(source.url, fault)
        source.due = now + (FILE_PERIOD if source.path else self._spread(self._period(source, now)))

    async def _read(self, source: _Source) -> bytes | None:
        """Read a source; None for a file that looks as it did when it was read last. Raises FetchFailed."""
        if source.path is None:
            return await self._transfer(source.url, None, MAX_CRL)
        try:
            found = await asyncio.to_thread(source.path.stat)
            mark = (found.st_mtime_ns, found.st_size, found.st_ino)
            if mark == source.mark:
                return None
            source.mark = mark
            return await asyncio.to_thread(source.path.read_bytes)
        except (OSError, ValueError) as error:
            raise FetchFailed(getattr(error, "strerror", None) or str(error)) from error

    def _period(self, source: _Source, now: Instant) -> Duration:
        held = self.book.lists.get(source.url)
        if source.fault or held is None or held.next_update is None:
            return RETRY if source.fault else LIST_PERIOD
        return max(RETRY, min(LIST_PERIOD, (held.next_update - now) // 2))

    async def _look_up(self, certificate: Parsed, issuer: Parsed) -> None:
        """Ask the certificate's responders; where none answers, learn where its lists stand."""
        self._trust(issuer)
        for url in filter(self._allowed, certificate.responders):
            try:
                data = await self._transfer(url, write_request(certificate, issuer), MAX_RESPONSE)
                response = self.book.put_response(data, certificate, issuer, self._clock())
            except Exception as error:  # noqa: BLE001 - see `_load`
                self._observer.status_failed(url, _name_fault(error))
                continue
            left = response.next_update - self._clock()
            self._observer.status_loaded(url, left // SECOND)
            # Most responders sign in advance: what comes may be what is held, and would be due again at once.
            self._pause(certificate, RETRY if response.revoked else max(SECOND, min(RETRY, left // 2)))
            return
        self._learn(certificate)
        self._pause(certificate, RETRY)

    def _pause(self, certificate: Parsed, period: Duration) -> None:
        if len(self._paused) >= MAX_PAUSED:
            self._paused.clear()
        self._paused[certificate.issuer, certificate.serial] = self._clock() + self._spread(period)

    def _trust(self, issuer: Parsed) -> None:
        """Believe the lists of a CA that a client presented, now that its path held; read again what failed."""
        if any(each.der == issuer.der for each in self._issuers):
            return
        self._issuers = (*self._issuers, issuer)
        for source in (*self._sources.values(), *self._learned.values()):
            if source.fault:
                source.due, source.mark = 0, ()

    def _learn(self, certificate: Parsed) -> None:
        for point in certificate.points:
            for name in point.full_name or ():
                if isinstance(name, x509.UniformResourceIdentifier) and self._allowed(name.value):
                    url = name.value
                    if url not in self._sources and len(self._learned) < MAX_LEARNED:
                        self._learned.setdefault(url, _Source(url, None))

    def _allowed(self, url: str) -> bool:
        """Whether a URL from a certificate may be fetched: http or https on a listed "host" or "host:port".

        The scheme's own port is none, written out or not: many authorities write `:80` into their certificates.
        """
        try:
            address = urlsplit(url)
            host, port = (address.hostname or "").lower(), address.port
        except ValueError:
            return False
        if address.scheme not in PORTS or not host or address.username is not None:
            return False
        own = PORTS[address.scheme]
        port = own if port is None else port
        return f"{host}:{port}" in self._hosts or (port == own and host in self._hosts)

    def _spread(self, period: Duration) -> Duration:
        return int(period * (0.9 + 0.2 * self._random()))

    async def _exchange(self, url: str, body: bytes | None, limit: int) -> bytes:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, trust_env=False
            )
        # The client library asks for gzip by itself, and `_read_body` refuses what it then gets.
        headers = {"Accept-Encoding": "identity"}
        if body is not None:
            headers["Content-Type"] = "application/ocsp-request"
        method = "GET" if body is None else "POST"
        try:
            async with (
                asyncio.timeout(DEADLINE),
                self._session.request(method, url, data=body, headers=headers, allow_redirects=False) as response,
            ):
                return await _read_body(response, limit)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise FetchFailed(f"{type(error).__name__}: {error}"[:200]) from error


async def _read_body(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Read at most `limit` octets; a packed body is refused, neither lists nor responses gain from it."""
    if response.status != 200:
        raise FetchFailed(f"status {response.status}")
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise FetchFailed("the body is packed")
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limit:
            raise FetchFailed(f"more than {limit} octets")
    return bytes(body)


def _path_of(url: str) -> Path | None:
    """Return the path of a file: URL or of a bare path; None for anything else."""
    if url.startswith("file:"):
        return Path(url2pathname(urlsplit(url).path))
    return None if "://" in url else Path(url)


def _name_fault(error: Exception) -> str:
    """Say what is wrong; the text of an error that nobody expected may quote anything and is left out."""
    return str(error) if isinstance(error, FetchFailed | StatusInvalid) else f"unexpected {type(error).__name__}"
