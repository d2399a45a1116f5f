"""A backend's events are printed once each and can be found over HTTP."""

import json

from demo.journal import Journal, serve_journal
from tests.demo.build import free_port, get_json


def test_an_event_is_one_line_of_json(capsys):
    Journal().write({"event": "call", "id": "a\nb"})
    assert json.loads(capsys.readouterr().out) == {"event": "call", "id": "a\nb"}


async def test_events_are_found_by_all_the_members_that_are_asked_for():
    journal, port = Journal(), free_port()
    for event, name in (("call", "a"), ("call", "b"), ("cancelled", "a")):
        journal.write({"event": event, "id": name})
    runner = await serve_journal(journal, "127.0.0.1", port)
    try:
        assert await get_json(f"http://127.0.0.1:{port}/events?event=call&id=a") == [{"event": "call", "id": "a"}]
        assert len(await get_json(f"http://127.0.0.1:{port}/events")) == 3
        assert await get_json(f"http://127.0.0.1:{port}/healthz") == {"status": "ok"}
    finally:
        await runner.cleanup()
