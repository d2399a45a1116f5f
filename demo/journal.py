"""What reached a backend: one event a line on standard output, and over HTTP, so that a tour can count calls."""

import json
from collections import deque
from collections.abc import Mapping
from typing import Any

from aiohttp import web

KEPT = 50_000  # events; enough for a full noisy-neighbour drill

Event = Mapping[str, Any]


class Journal:
    """The latest events of one backend."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=KEPT)

    def write(self, event: Event) -> None:
        """Keep an event and print its line."""
        self._events.append(event)
        print(json.dumps(event), flush=True)

    def find(self, wanted: Mapping[str, str]) -> list[Event]:
        """Find the events whose members equal all of `wanted`."""
        return [event for event in self._events if all(str(event.get(k)) == v for k, v in wanted.items())]


async def serve_journal(journal: Journal, host: str, port: int) -> web.AppRunner:
    """Serve GET /events?member=value… and GET /healthz. The caller cleans the runner up."""

    async def events(request: web.Request) -> web.Response:
        return web.json_response(journal.find(dict(request.query)))

    async def healthz(_request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    app = web.Application()
    app.add_routes([web.get("/events", events), web.get("/healthz", healthz)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner
