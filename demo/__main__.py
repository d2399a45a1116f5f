"""The command line of the demo: `python -m demo run | tour | pki | idp | ledger | payments`."""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import signal
import sys
from collections.abc import Sequence

from demo.launch import launch_demo
from demo.pki import ensure_pki
from demo.row import Row
from demo.serve import serve_backend, serve_idp
from demo.settings import SettingInvalid, Settings, read_settings
from demo.supervise import StartFailed
from demo.tour import take_tour, write_figures, write_shell, write_table
from demo.world import World


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command of the demo. Gives the exit status: 0 as expected, 1 a row is not, 2 it could not start."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options, read_settings())
    except (SettingInvalid, StartFailed) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except asyncio.CancelledError:
        return 0 if options.command == "run" else 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m demo", description="The open-banking gateway, end to end.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="start everything, print the tour, stay up until Ctrl-C")
    tour = commands.add_parser("tour", help="take the tour; exit 0 only if every row is as expected")
    tour.add_argument("--json", action="store_true", help="print the rows as JSON")
    tour.add_argument("--attach", action="store_true", help="use a demo that runs already")
    pki = commands.add_parser("pki", help="make the development PKI where there is none that is valid")
    pki.add_argument("--shared", action="store_true", help="let other users read the keys (containers)")
    for name in ("idp", "ledger", "payments"):
        service = commands.add_parser(name, help=f"serve the {name} of the demo")
        service.add_argument("--bind", default="127.0.0.1", metavar="ADDRESS")
    return parser


def _run(options: argparse.Namespace, settings: Settings) -> int:
    match options.command:
        case "pki":
            made = ensure_pki(settings.pki, shared=options.shared)
            print(f"{settings.pki}: {'made' if made else 'valid as it is'}")
        case "idp":
            serve_idp(settings, options.bind)
        case "ledger" | "payments":
            asyncio.run(serve_backend(settings, options.command, options.bind))
        case "tour":
            return asyncio.run(_tour(settings, attach=options.attach, as_json=options.json))
        case _:
            return asyncio.run(_stay(settings))
    return 0


async def _tour(settings: Settings, *, attach: bool, as_json: bool) -> int:
    _end_on_signals()
    async with contextlib.AsyncExitStack() as stack:
        if not attach:
            await stack.enter_async_context(launch_demo(settings))
        rows = await take_tour(World(settings))
    if as_json:
        print(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
    else:
        print(write_table(rows))
    return _conclude(rows)


async def _stay(settings: Settings) -> int:
    _end_on_signals()
    async with launch_demo(settings):
        rows = await take_tour(World(settings))
        print(write_table(rows))
        _conclude(rows)
        print(f"\n{_by_hand(settings, rows)}")
        partner, public = (settings.address(name) for name in ("PARTNER", "PUBLIC"))
        print(f"\nUp: partners at {_at(partner)}, the public at {_at(public)}; logs in {settings.log}. Ctrl-C ends it.")
        await asyncio.get_running_loop().create_future()
    return 0


def _by_hand(settings: Settings, rows: Sequence[Row]) -> str:
    if settings.proxy:  # curl knows only version 1 of the protocol, which the gateway refuses
        return "No curl lines: the planes expect a PROXY protocol v2 header. Start without PROXY_PROTOCOL to get them."
    return "\n".join(["The same by hand:", "", write_shell(settings), *(row.curl for row in rows if row.curl)])


def _end_on_signals() -> None:
    """Let SIGTERM and SIGINT cancel the main task, so that every program is ended on the way out."""
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def _at(address: tuple[str, int]) -> str:
    return f"https://{address[0]}:{address[1]}"


def _conclude(rows: Sequence[Row]) -> int:
    write_figures(rows)
    wrong = sum(not row.ok for row in rows)
    print(f"\n{len(rows) - wrong} of {len(rows)} rows as expected", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
