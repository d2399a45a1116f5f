"""Quotas and charges for the limiter's tests, and a store on a Redis server."""

from model.instant import MINUTE, SECOND
from model.quota import Algorithm, Charge, Quota
from model.snapshot import Store as Settings
from ratelimit.redis import RedisStore

START = 1_700_000_000 * SECOND


def bucket_of(count=10, period=SECOND, burst=None, name="bucket", **options):
    return Quota(name, count, period, count if burst is None else burst, **options)


def window_of(count=10, period=MINUTE, name="window", **options):
    return Quota(name, count, period, 0, Algorithm.WINDOW, **options)


def places_of(count=2, period=MINUTE, name="places"):
    return Quota(name, count, period, 0, concurrent=True)


def charge_of(quota, *key, cost=1, principal="p", holder=""):
    return Charge(quota, key or ("k",), cost, principal, holder)


def redis_store(server, **options):
    return RedisStore(Settings("redis", "single", (server.url,), **({"budget": SECOND} | options)))
