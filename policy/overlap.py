"""Which route can take a request away from which: routes are tried in order, the first that matches wins."""

import itertools
import re
from collections.abc import Sequence
from functools import lru_cache

from policy.route import Match, Route

_NAME = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*\}", re.ASCII)
_LITERAL = re.compile(r"[^{}*\[\]]+")
MOST_NAMES = 5
"""Envoy matches no template of more."""


def find_shadow(routes: Sequence[Route], index: int) -> tuple[Route, str] | None:
    """Find the first earlier route of the plane that takes requests of a route, and say what it takes."""
    route = routes[index]
    for earlier in routes[:index]:
        if earlier.plane != route.plane:
            continue
        if covers(earlier.match, route.match):
            return earlier, "all requests"
        # The paths first: of thousands of routes, two and two are compared here.
        same = (earlier.match.path, earlier.match.prefix) == (route.match.path, route.match.prefix)
        common = set(earlier.match.methods) & set(route.match.methods) if same else ()
        if common and earlier.match.place == route.match.place:
            return earlier, " and ".join(sorted(common))
    return None


def covers(wide: Match, narrow: Match) -> bool:
    """Whether every request that `narrow` matches is one that `wide` matches too."""
    return (
        _covers_path(wide, narrow)
        and (not wide.methods or (bool(narrow.methods) and set(narrow.methods) <= set(wide.methods)))
        and wide.headers.items() <= narrow.headers.items()
        and (not wide.hosts or (bool(narrow.hosts) and set(narrow.hosts) <= set(wide.hosts)))
    )


def _covers_path(wide: Match, narrow: Match) -> bool:
    inner = _segments(narrow.path or narrow.prefix or "")
    if wide.prefix is not None:
        outer = () if wide.prefix == "/" else _segments(wide.prefix.rstrip("/"))
        return len(outer) <= len(inner) and all(map(_covers_segment, outer, inner))
    outer = _segments(wide.path or "")
    return narrow.prefix is None and len(outer) == len(inner) and all(map(_covers_segment, outer, inner))


@lru_cache(maxsize=65_536)
def _segments(path: str) -> tuple[str, ...]:
    return tuple(path.split("/")[1:])


def _covers_segment(wide: str, narrow: str) -> bool:
    return wide == narrow or (wide.startswith("{") and wide.endswith("}") and narrow != "")


def is_template(path: str) -> bool:
    """Whether the segments of a path with braces are literal or one `{name}`, as Envoy's templates want them."""
    segments = _segments(path.removesuffix("/"))
    names = [segment for segment in segments if _NAME.fullmatch(segment)]
    literals = [segment for segment in segments if not _NAME.fullmatch(segment)]
    return len(set(names)) == len(names) <= MOST_NAMES and all(map(_LITERAL.fullmatch, literals))


def number_names(path: str) -> str:
    """Write a template with names that Envoy takes (16 letters at most): they tell places apart and nothing else."""
    numbers = itertools.count()
    return _NAME.sub(lambda _name: f"{{p{next(numbers)}}}", path)
