"""Values that are well-formed and beyond what Envoy takes, or too small to mean anything to it."""

from collections.abc import Iterator

from model.instant import MILLISECOND
from policy.finding import Finding, Findings
from policy.gateway import Document
from policy.tree import Where

_BODY = (1 << 32) - 1
_HEADERS = 8 << 20
_PIPE = 107


def check_bounds(document: Document) -> Findings:
    """Find sizes, durations and names of sockets that Envoy would refuse, each of them only at its start or never."""
    for where, size, most in _sizes(document):
        if not 1 <= size <= most:
            yield Finding(where, f"{size} bytes", f"from 1B to {most} bytes")
    for where, duration in _waits(document):
        if duration < MILLISECOND:
            yield Finding(where, f"{duration / MILLISECOND:g}ms", "at least 1ms, which is as fine as Envoy counts")
    for where, path in _pipes(document):
        if len(path.encode()) > _PIPE:
            yield Finding(where, f"a path of {len(path.encode())} bytes", f"at most the {_PIPE} of a Unix socket")


def _sizes(document: Document) -> Iterator[tuple[Where, int, int]]:
    limits = document.limits
    yield ("limits", "body"), limits.body, _BODY
    yield ("limits", "header_size"), limits.header_size, _HEADERS
    yield ("limits", "url"), limits.url, _HEADERS
    for index, route in enumerate(document.routes):
        if route.body is not None:
            yield ("routes", index, "body"), route.body, _BODY
    for name, upstream in document.upstreams.items():
        yield ("upstreams", name, "response"), upstream.response, _BODY


def _waits(document: Document) -> Iterator[tuple[Where, int]]:
    yield ("sidecar", "timeout"), document.sidecar.timeout
    yield ("sidecar", "process_timeout"), document.sidecar.process_timeout
    for name, upstream in document.upstreams.items():
        where: Where = ("upstreams", name)
        yield (*where, "connect_timeout"), upstream.connect_timeout
        if upstream.health is not None:
            yield (*where, "health", "interval"), upstream.health.interval
            yield (*where, "health", "timeout"), upstream.health.timeout
        if upstream.outliers is not None:
            yield (*where, "outliers", "interval"), upstream.outliers.interval
            yield (*where, "outliers", "eject"), upstream.outliers.eject
    for index, route in enumerate(document.routes):
        if route.retry is not None and route.retry.per_try:
            yield ("routes", index, "retry", "per_try"), route.retry.per_try


def _pipes(document: Document) -> Iterator[tuple[Where, str]]:
    if document.sidecar.address.path:
        yield ("sidecar", "address"), document.sockets()[-1].path
    for name, upstream in document.upstreams.items():
        for index, address in enumerate(upstream.endpoints):
            yield ("upstreams", name, "endpoints", index), address.path
