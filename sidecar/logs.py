"""One line per event, as JSON or as text, written by a thread so that a slow reader never holds up a decision.

Fields are logged because they are named here, never because they were there: no header, no path, no query, no body,
no credential and no text of an exception. A decision is joined to Envoy's access log, which has the path, by the
request id.
Whatever was named is escaped: one event is one line, whatever a client wrote into it (OWASP ASVS 16.4.1).
"""

import json
import logging
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from model.instant import MILLISECOND, SECOND, Instant
from sidecar import clock

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
CAPACITY = 10_000
PAUSE = 0.02
"""Seconds between two batches of lines: to wake a thread for each line costs a decision more than the line does."""
FIELD_LIMIT = 512

# kept: json.dumps makes a new encoder for each call that wants other separators
_ENCODER = json.JSONEncoder(separators=(",", ":"))

Field = str | int | float | bool | None | list[str]


class Journal:
    """Where events and decisions are written.

    `write` takes a whole line and `flush` ends a batch of them. Both may block: they run on a thread of their own.
    Decisions have a budget of `rate` lines per second for those that allow and the same again for those that refuse;
    beyond it, and where too many wait, lines are dropped and counted in `dropped`.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        level: str = "info",
        form: str = "json",
        rate: int = 1000,
        flush: Callable[[], object] = lambda: None,
    ) -> None:
        self.dropped = 0
        self._write = write
        self._flush = flush
        self._level = LEVELS[level]
        self._render = _render_text if form == "text" else _render_json
        self._decisions = self._level <= LEVELS["info"]
        self._budgets = (_Budget(rate), _Budget(rate))
        self._lines: deque[str] = deque()
        self._come = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._drain, name="journal", daemon=True)
        self._thread.start()

    def admits(self, at: Instant, *, refusal: bool) -> bool:
        """Tell whether a decision taken now is to be written; one that is not is counted as dropped."""
        if not self._decisions:
            return False
        if self._budgets[refusal].take(at):
            return True
        self.dropped += 1
        return False

    def decision(self, at: Instant, fields: dict[str, Field]) -> None:
        """Write one decision that was admitted."""
        self._put(at, "info", "decision", fields)

    def event(self, level: str, name: str, **fields: Field) -> None:
        """Log one event of the sidecar's own life."""
        if LEVELS[level] >= self._level:
            self._put(clock.now(), level, name, fields)

    def close(self) -> None:
        """Write what is queued, for a second at most."""
        self._closing.set()
        self._come.set()
        self._thread.join(1.0)

    def _put(self, at: Instant, level: str, name: str, fields: dict[str, Field]) -> None:
        if len(self._lines) >= CAPACITY:
            self.dropped += 1
            return
        self._lines.append(self._render({"at": _timestamp(at), "level": level, "event": name, **fields}))
        if not self._come.is_set():
            self._come.set()

    def _drain(self) -> None:
        while not self._closing.is_set():
            self._come.wait()
            self._come.clear()
            while self._lines:
                self._write_batch()
            self._closing.wait(PAUSE)
        while self._lines:
            self._write_batch()

    def _write_batch(self) -> None:
        taken = 0
        try:
            while self._lines:
                taken += 1
                self._write(self._lines.popleft())
            self._flush()
        except (OSError, ValueError):  # the reader has gone: nothing is left to write to
            self.dropped += taken


class Bridge(logging.Handler):
    """Leads what libraries log, from warnings on, into the journal; of an exception its type and place only."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(logging.WARNING)
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record as an event named "library"."""
        level = "error" if record.levelno >= logging.ERROR else "warning"
        fields: dict[str, Field] = {"logger": record.name}
        if record.exc_info and record.exc_info[1] is not None:
            self._journal.event(level, "exception", **fields, **describe_error(record.exc_info[1]))
        else:
            self._journal.event(level, "library", **fields, message=record.getMessage())


class _Budget:
    """So many lines in each second."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._second = 0
        self._left = rate

    def take(self, at: Instant) -> bool:
        second = at // SECOND
        if second != self._second:
            self._second, self._left = second, self._rate
        self._left -= 1
        return self._left >= 0


def open_journal(level: str, form: str, rate: int) -> Journal:
    """Open the log on standard output, and lead into it what libraries log."""

    def write(line: str) -> None:
        sys.stdout.write(line + "\n")

    journal = Journal(write, level, form, rate, sys.stdout.flush)
    logging.basicConfig(handlers=[Bridge(journal)], level=logging.WARNING, force=True)
    return journal


def describe_error(error: BaseException) -> dict[str, Field]:
    """Name the type of an exception and where it was raised; its text may quote a credential and is left out."""
    frames = traceback.extract_tb(error.__traceback__)[-5:]
    places: list[str] = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
    return {"error": type(error).__name__, "places": places}


def _render_json(fields: dict[str, Field]) -> str:
    # ensure_ascii escapes C0, C1, ESC, U+2028 and U+2029; DEL is the one control character that it leaves
    return _ENCODER.encode({name: _clip(value) for name, value in fields.items()}).replace("\x7f", "\\u007f")


def _render_text(fields: dict[str, Field]) -> str:
    return " ".join(f"{name}={_quote(_clip(value))}" for name, value in fields.items() if value not in ("", None))


def _quote(value: Field) -> str:
    if isinstance(value, str) and value.isascii() and value.isprintable() and not set(value) & set(' "=\\'):
        return value
    return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")


def _clip(value: Field) -> Field:
    return value[:FIELD_LIMIT] if isinstance(value, str) else value


def _timestamp(at: Instant) -> str:
    return f"{_write_second(at // SECOND)}.{at % SECOND // MILLISECOND:03}Z"


@lru_cache(maxsize=16)
def _write_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
