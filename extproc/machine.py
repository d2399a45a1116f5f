"""Which event may come when: one table, and a machine that walks it.

To let a new phase be processed, add its row here and its answer in change.py; nothing else knows the order of phases.
docs/extproc.md is drawn from TABLE (tests/extproc/test_machine.py holds it in step).
"""

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """The phases of an exchange, as the fields of envoy.service.ext_proc.v3.ProcessingRequest name them."""

    REQUEST_HEADERS = "request_headers"
    REQUEST_BODY = "request_body"
    REQUEST_TRAILERS = "request_trailers"
    RESPONSE_HEADERS = "response_headers"
    RESPONSE_BODY = "response_body"
    RESPONSE_TRAILERS = "response_trailers"


class State(StrEnum):
    """Where one exchange stands."""

    OPEN = "open"
    REQUEST = "request"
    RESPONSE = "response"
    ENDED = "ended"


# Request body and trailers may still arrive while the response is under way (full duplex): they change no state then.
TABLE: dict[State, dict[Phase, State]] = {
    State.OPEN: {
        Phase.REQUEST_HEADERS: State.REQUEST,
        # A route that only processes responses starts here (request_header_mode SKIP).
        Phase.RESPONSE_HEADERS: State.RESPONSE,
    },
    State.REQUEST: {
        Phase.REQUEST_BODY: State.REQUEST,
        Phase.REQUEST_TRAILERS: State.REQUEST,
        Phase.RESPONSE_HEADERS: State.RESPONSE,
        # A route that only holds places is not asked about headers and bodies of the response.
        Phase.RESPONSE_TRAILERS: State.ENDED,
    },
    State.RESPONSE: {
        Phase.REQUEST_BODY: State.RESPONSE,
        Phase.REQUEST_TRAILERS: State.RESPONSE,
        Phase.RESPONSE_BODY: State.RESPONSE,
        Phase.RESPONSE_TRAILERS: State.ENDED,
    },
    State.ENDED: {},
}


class PhaseUnexpected(Exception):
    """An event came that the table does not allow: the peer broke the protocol, the stream must fail."""


@dataclass(slots=True)
class Machine:
    """The state of one exchange. Pure: no clock, no task, no I/O."""

    state: State = State.OPEN

    def enter(self, phase: Phase) -> None:
        """Move on an event. Raises PhaseUnexpected where the table has no such move."""
        following = TABLE[self.state].get(phase)
        if following is None:
            raise PhaseUnexpected(f"{phase} after {self.state}")
        self.state = following

    def end(self) -> None:
        """Note that the exchange got its last reply: no event is legal any more."""
        self.state = State.ENDED
