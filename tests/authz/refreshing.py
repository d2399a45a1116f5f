"""Endpoints of key sets on a clock that moves when told, and a refresher that reads them."""

import asyncio
from collections import Counter

from authz.download import Download
from authz.token import verify_token
from model.instant import SECOND
from tests.authz.tokens import NOW, issuer, token

OTHER = "https://b.example"


class Hours:
    """A clock that moves only when told, and a sleep that wakes by it."""

    def __init__(self):
        self.now = NOW
        self.sleepers = []

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        woken = asyncio.get_running_loop().create_future()
        self.sleepers.append((self.now + int(seconds * SECOND), woken))
        await woken

    async def advance(self, duration):
        """Let time pass, stopping at every instant at which somebody wakes."""
        end = self.now + duration
        while True:
            await settle()
            self.sleepers = [(at, woken) for at, woken in self.sleepers if not woken.done()]
            due = sorted((at for at, _ in self.sleepers if at <= end))
            if not due:
                break
            self.now = max(self.now, due[0])
            for at, woken in self.sleepers:
                if at <= self.now and not woken.done():
                    woken.set_result(None)
        self.now = end
        await settle()


class Endpoints:
    """Key sets by URL; an exception stands for an endpoint that fails so, an event for one that hangs until set."""

    def __init__(self, **places):
        self.places = {f"https://{name}.example/keys": body for name, body in places.items()}
        self.fetches = Counter()
        self.fresh_for = None

    def put(self, name, body):
        self.places[f"https://{name}.example/keys"] = body

    def count(self, name):
        return self.fetches[f"https://{name}.example/keys"]

    async def fetch(self, url):
        self.fetches[url] += 1
        body = self.places[url]
        if isinstance(body, asyncio.Event):
            await body.wait()
            body = self.places[url]
        if isinstance(body, Exception):
            raise body
        return Download(body, self.fresh_for)


class Heard:
    def __init__(self):
        self.loaded = []
        self.failed = []

    def keys_loaded(self, issuer_id, keys):
        self.loaded.append((issuer_id, len(keys.ignored)))

    def keys_failed(self, issuer_id, why):
        self.failed.append((issuer_id, why))


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


def first(**members):
    return issuer(jwks="https://id.example/keys", **members)


def second(**members):
    return issuer(**{"id": "b", "issuer": OTHER, "jwks": "https://b.example/keys", **members})


def judge(refresher, hours, text=None):
    # A token that never expires: what is under test is the age of the keys.
    text = text or lasting("ed")
    return verify_token(text, refresher.trust, hours.now)


def lasting(key, **claims):
    return token(key, exp=NOW // SECOND + 10 * 86_400, **claims)
