"""When the data of a server began: how an instance finds that the server came back without what it held before.

A mark stands beside the counters and is gone when they are. Whoever connects reads it, or writes it where there is
none. An instance that knew another mark before has missed data, and says so in the mark. From then on, for as long as
it takes all instances to come back and tell what they know (`SETTLE`), no decision is made from that server. A mark
that is new to an instance which knew of none is a fleet that starts: nothing was lost, and every bucket is full.
"""

from importlib.resources import files

from model.instant import MICROSECOND, SECOND, Duration, Instant

SOURCE = files("ratelimit").joinpath("epoch.lua").read_text(encoding="utf-8")
SETTLE = 2 * SECOND
"""An idle instance finds out with its next sign of life (a second), and looks for the server every half second."""


class Epochs:
    """The beginning that is known of each server, by the key of its mark. Servers of one cluster share it."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def command(self, key: str, now: Instant | None) -> tuple[str, ...]:
        """Write the call that reads the mark. `now` None lets the server read its own clock."""
        known = self._known.get(key, 0)
        return "EVAL", SOURCE, "1", key, "" if now is None else str(now // MICROSECOND), str(known)

    def read(self, key: str, answer: bytes) -> Duration:
        """Take in the answer, and tell for how long nothing is to be decided from the server."""
        began, lost, now = (int(number) for number in answer.split())
        self._known[key] = began
        return max(SETTLE - (now - lost) * MICROSECOND, 0) if lost else 0
