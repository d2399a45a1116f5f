"""The tour: every case and drill against a running demo, as a table, with the curl line that repeats each by hand."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from demo.cases import CASES, Case
from demo.client import Refused
from demo.drills import DRILLS, Drill
from demo.row import Row, complaints, describe
from demo.settings import EDGE_NAME, Settings
from demo.world import World

FIGURES = Path("build/figures/tour.json")


async def take_tour(world: World) -> list[Row]:
    """Make every row, one after the other, since some spend what others would need."""
    rows = [await run_case(world, case) for case in CASES]
    return rows + [await run_drill(world, drill) for drill in DRILLS]


async def run_case(world: World, case: Case) -> Row:
    """Make the row of one case."""
    curl = write_curl(world.settings, case)
    try:
        reply = await world.ask(case.ask)
    except Refused as error:
        return Row(case.title, str(case.expect), str(error), ok=False, curl=curl)
    faults = complaints(reply, case.expect)
    got = describe(reply) + (f" ({'; '.join(faults)})" if faults else "")
    return Row(case.title, str(case.expect), got, not faults, reply.seconds * 1000, curl)


async def run_drill(world: World, drill: Drill) -> Row:
    """Make the row of one drill."""
    try:
        return await drill(world)
    except Refused as error:
        return Row(drill.__name__.replace("_", " "), "an answer", str(error), ok=False)


def write_curl(settings: Settings, case: Case) -> str:
    """Write the shell line that repeats a case; `token` is the function that `write_shell` defines."""
    ask, (host, port) = case.ask, settings.address(case.ask.plane)
    words = ["curl", "-i", "--http1.1", "--path-as-is", "--cacert", f"{settings.pki}/edge-ca.pem"]
    if ask.identity is not None:
        words += ["--cert", f"{settings.pki}/{ask.identity}.pem", "--key", f"{settings.pki}/{ask.identity}.key"]
    words += ["--connect-to", f"{EDGE_NAME}:{port}:{host}:{port}"]
    for name, value in ask.headers:
        words += ["-H", f"{name}: {value}"]
    line = shlex.join(words)
    if ask.token is not None and not ask.token.forgery:
        order = [ask.token.client_id, ask.token.scope, ask.token.alg, str(ask.token.expires_in)]
        line += f' -H "Authorization: Bearer $(token {shlex.join(order)})"'
    if ask.body is not None:
        text = ask.body.decode() if isinstance(ask.body, bytes) else json.dumps(ask.body)
        line += f" -H 'Content-Type: application/json' -d {shlex.quote(text)}"
    return f"{line} {shlex.quote(f'https://{EDGE_NAME}:{port}{ask.target}')}"


def write_shell(settings: Settings) -> str:
    """Write the shell function that mints a token: token CLIENT SCOPE ALG SECONDS."""
    order = r"""{\"client_id\":\"$1\",\"scope\":\"$2\",\"alg\":\"$3\",\"expires_in\":$4}"""
    pick = r"""sed 's/.*"access_token": *"\([^"]*\)".*/\1/'"""
    return f'token() {{ curl -s {settings.url("IDP")}/token -d "{order}" | {pick}; }}'


def write_table(rows: Sequence[Row]) -> str:
    """Write the rows as a table of text."""
    heads = ("", "request", "expected", "got", "ms")
    cells = [heads, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(heads))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _cells(row: Row) -> tuple[str, str, str, str, str]:
    spent = "" if row.milliseconds is None else f"{row.milliseconds:.1f}"
    return ("ok" if row.ok else "NO", row.title, row.expected, row.got, spent)


def write_figures(rows: Sequence[Row], path: Path = FIGURES) -> None:
    """Write the tour's figures as one flat JSON object."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"rows": len(rows), "rows_as_expected": sum(row.ok for row in rows)}) + "\n")
