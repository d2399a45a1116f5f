"""envoy.service.ext_proc.v3.ExternalProcessor/Process: bytes in, bytes out, one machine per stream."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack

from extproc import wire
from extproc.change import Event, Replace, Reply, answer_event
from extproc.machine import Machine, Phase, PhaseUnexpected, State
from model.rpc import RpcError
from model.snapshot import Route

INVALID_ARGUMENT = 3
INTERNAL = 13

Recorder = Callable[[Event, Reply], None]

Hold = Callable[[str], Callable[[], None]]
"""Begins to hold the places that a decision named; what it gives is called when the exchange is over. Must not wait."""


def _hold_none(_places: str) -> Callable[[], None]:
    return lambda: None


class ProcessorService:
    """Answers the streams of Envoy's ext_proc filter.

    `policies` maps the ids of routes that have something to process to them; it is swapped as one attribute on reload,
    so that a stream sees one version per event. `hold` is told of places at the request's headers: a stream lives as
    long as its exchange, and ends with it however that ends. Raises nothing but RpcError.
    """

    def __init__(self, policies: Mapping[str, Route], record: Recorder, hold: Hold = _hold_none) -> None:
        self.policies = policies
        self._record = record
        self._hold = hold

    async def process(self, messages: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Answer each event with exactly one reply.

        Ends the stream right after the last reply that wardgate has to give, which spares Envoy a reset of the stream;
        before that only an RpcError ends it, so that Envoy never takes an early end for a reason to let go.
        """
        machine = Machine()
        with ExitStack() as held:
            async for data in messages:
                yield self._answer(machine, data, held)
                if machine.state is State.ENDED:
                    return

    def _answer(self, machine: Machine, data: bytes, held: ExitStack) -> bytes:
        try:
            event = wire.read_event(data)
            machine.enter(event.phase)
            reply = answer_event(event, self.policies)
            self._record(event, reply)
            if event.places and event.phase is Phase.REQUEST_HEADERS:
                held.callback(self._hold(event.places))
            if isinstance(reply, Replace) or event.phase is Phase.RESPONSE_HEADERS:
                machine.end()
            return wire.write_reply(event.phase, reply)
        except (wire.EventMalformed, PhaseUnexpected) as error:
            raise RpcError(INVALID_ARGUMENT, str(error)) from error
        except Exception as error:  # anything else would be taken for the end of the stream
            raise RpcError(INTERNAL, "the processor failed") from error
