"""Timeouts that contradict each other."""

from model.instant import MILLISECOND
from policy.finding import Finding, Findings
from policy.gateway import Document
from policy.route import Retry, Route
from policy.tree import Where


def check_timing(document: Document) -> Findings:
    """Find budgets that cannot be kept: the smaller waits must fit into the larger ones."""
    for name, upstream in document.upstreams.items():
        where = ("upstreams", name, "connect_timeout")
        if 0 < upstream.timeout < upstream.connect_timeout:
            found = f"{_show(upstream.connect_timeout)} for a connection"
            yield Finding(where, found, f"at most the {_show(upstream.timeout)} of a whole request")
    for index, route in enumerate(document.routes):
        yield from _check_route(("routes", index), route, document)


def _check_route(where: Where, route: Route, document: Document) -> Findings:
    known = [document.upstreams[name].timeout for name in route.targets[:1] if name in document.upstreams]
    timeout = known[0] if route.timeout is None and known else route.timeout
    if timeout is None:
        return
    here = (*where, "timeout") if route.timeout is not None else where
    if timeout == 0:
        if not route.stream:
            yield Finding(here, "0s (no limit)", "a timeout, or stream: true on a route that never ends")
        return
    if document.sidecar.timeout > timeout:
        found = f"{_show(timeout)} for the route"
        yield Finding(here, found, f"at least sidecar.timeout, which is {_show(document.sidecar.timeout)}")
    if route.retry is not None and route.retry.per_try is not None:
        yield from _check_tries((*where, "retry", "per_try"), route.retry, route.retry.per_try, timeout)


def _check_tries(where: Where, retry: Retry, per_try: int, timeout: int) -> Findings:
    tries = retry.attempts + 1
    if per_try == 0 or per_try > timeout:
        yield Finding(where, f"{_show(per_try)} per try", f"more than 0 and at most the route's {_show(timeout)}")
    elif tries * per_try > timeout:
        found = f"{tries} tries of {_show(per_try)}, which take {_show(tries * per_try)}"
        yield Finding(where, found, f"at most the route's {_show(timeout)} in all")


def _show(nanoseconds: int) -> str:
    return f"{nanoseconds / MILLISECOND:g}ms"
