"""The command line's grammar. Commands are imported when they are run: `--help` must not wait for a gRPC library."""

import argparse
import importlib.metadata
import re
from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from model.instant import MILLISECOND, MINUTE, SECOND, Duration, Instant
from sidecar import clock
from sidecar.server import AUTO

UNITS: dict[str, Duration] = {"ms": MILLISECOND, "s": SECOND, "m": MINUTE}

EPILOG = """\
exit codes: 0 done; 1 a worker kept dying; 2 refused, with every reason on standard error; 3 a revocation is still
propagating
"""


class _Parser(argparse.ArgumentParser):
    """Says what was wrong in one line, and where to read on."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def build_parser() -> argparse.ArgumentParser:
    """Build the parser; each command's namespace holds `run`, called with the namespace, which gives the exit code."""
    parser = _Parser(
        prog="wardgate",
        description="The policy sidecar of an Envoy fleet: one gateway document, compiled and served.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"wardgate {importlib.metadata.version('wardgate')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_check(commands)
    _add_compile(commands)
    _add_serve(commands)
    _add_schema(commands)
    _add_explain(commands)
    _add_revoke(commands)
    _add_coverage(commands)
    _add_key(commands)
    _add_command(commands, "reasons", "sidecar.command:print_reasons", "print the table of reasons as a page")
    return parser


if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[_Parser]  # noqa: SLF001 - argparse gives its type no public name


def _add_command(commands: "Commands", name: str, run: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(run=_deferred(run))
    return parser


def _deferred(name: str) -> Callable[[argparse.Namespace], int]:
    module, _, function = name.partition(":")

    def run(options: argparse.Namespace) -> int:
        code: int = getattr(import_module(module), function)(options)
        return code

    return run


def _add_document(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("document", type=Path, metavar="FILE", help="the gateway document")


def _add_sources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("document", type=Path, nargs="?", metavar="FILE", help="the gateway document")
    parser.add_argument("--ratelimit-config", type=Path, metavar="DIR", help="rules of envoyproxy/ratelimit")
    parser.add_argument("--ratelimit-merge-domains", action="store_true", help="files may add to one domain")


def _add_check(commands: "Commands") -> None:
    parser = _add_command(
        commands,
        "check",
        "sidecar.command:check_document",
        "report every fault of a document, then let Envoy validate what it compiles to; or every fault of rules",
    )
    _add_sources(parser)
    parser.add_argument("--envoy", type=Path, metavar="PATH", help="the Envoy binary (default: found by itself)")


def _add_compile(commands: "Commands") -> None:
    parser = _add_command(
        commands,
        "compile",
        "sidecar.command:compile_document",
        "write the Envoy configuration, and the policy as JSON",
    )
    _add_document(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where Envoy's files go")
    parser.add_argument("--policy", type=Path, metavar="FILE", help="where the policy goes (default: DIR/policy.json)")


def _add_serve(commands: "Commands") -> None:
    parser = _add_command(
        commands, "serve", "sidecar.serve:serve_document", "answer Envoy; take up edits of the document while running"
    )
    document = parser.add_argument_group("what is served")
    document.add_argument("--document", type=Path, metavar="FILE", help="the gateway document")
    document.add_argument("--envoy-dir", type=Path, metavar="DIR", help="keep Envoy's files here in step with it")
    document.add_argument(
        "--ratelimit-config",
        type=Path,
        metavar="DIR",
        help="rules of envoyproxy/ratelimit for the rate limit service; without a document nothing else is served",
    )
    document.add_argument("--poll", type=_duration, default="250ms", metavar="TIME", help="how often files are read")
    document.add_argument("--wait", action="store_true", help="wait, not ready, for a first good document")
    place = parser.add_argument_group("where")
    place.add_argument(
        "--listen",
        default="",
        metavar="ADDRESS",
        help="unix:/path or host:port (default: the document's; for rules alone 127.0.0.1:8081)",
    )
    place.add_argument("--admin", default="", metavar="HOST:PORT", help="health, metrics, key set (default: none)")
    place.add_argument("--state", type=Path, metavar="DIR", help="keeps the caller context's keys over a restart")
    place.add_argument(
        "--socket-mode", type=_mode, default="660", metavar="MODE", help="of Unix sockets (default: 660)"
    )
    _add_rates(parser)
    life = parser.add_argument_group("how")
    life.add_argument("--workers", type=_count, metavar="N", help="processes (default: the document's)")
    life.add_argument(
        "--server",
        choices=(AUTO, "zttp", "grpcio"),
        default=AUTO,
        help="what speaks gRPC (default: zttp on Unix sockets and loopback, else grpcio)",
    )
    life.add_argument(
        "--drain", type=_duration, default="1s", metavar="TIME", help="new calls are still answered after a stop signal"
    )
    life.add_argument("--grace", type=_duration, default="3s", metavar="TIME", help="for calls in flight, after that")
    lines = parser.add_argument_group("log")
    lines.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    lines.add_argument("--log-format", choices=("json", "text"), default="json")
    lines.add_argument("--log-rate", type=_count, default=1000, metavar="N", help="decisions logged a second, at most")


def _add_rates(parser: argparse.ArgumentParser) -> None:
    rates = parser.add_argument_group("rate limit service (beside each, the variable that also sets it)")
    rates.add_argument("--ratelimit-merge-domains", action="store_true", help="MERGE_DOMAIN_CONFIG")
    rates.add_argument("--ratelimit-shadow", action="store_true", help="count, never refuse: SHADOW_MODE")
    rates.add_argument("--ratelimit-soft", action="store_true", help="every limit is a quota: QUOTA_MODE")
    rates.add_argument("--ratelimit-describe", action="store_true", help="RESPONSE_DYNAMIC_METADATA")
    rates.add_argument("--ratelimit-drain", action="store_true", help="a debit beyond what is left takes the rest")
    rates.add_argument(
        "--ratelimit-headers", metavar="FAMILY,...", help="draft, remaining, x-ratelimit, ratelimit-legacy or none"
    )
    rates.add_argument("--ratelimit-algorithm", choices=("window", "bucket"), help="how to count (default: window)")
    store = parser.add_argument_group("store of the rules, without a document (default: memory)")
    store.add_argument("--store", action="append", metavar="URL", help="redis://, rediss:// or unix://; repeatable")
    store.add_argument("--store-topology", choices=("single", "sentinel", "cluster"), help="default: single")
    store.add_argument("--store-service", metavar="NAME", help="the master's name in Sentinel")
    store.add_argument("--store-user", metavar="NAME")
    store.add_argument("--store-password", metavar="PLACE", help="env:NAME or file:PATH")
    store.add_argument("--store-ca", metavar="FILE")
    store.add_argument("--store-cert", metavar="FILE")
    store.add_argument("--store-key", metavar="FILE")


def _add_schema(commands: "Commands") -> None:
    _add_command(commands, "schema", "sidecar.command:print_schema", "print the JSON Schema of the gateway document")


def _add_explain(commands: "Commands") -> None:
    parser = _add_command(
        commands,
        "explain",
        "sidecar.command:explain_document",
        "say which limits a caller meets on a route, and why; or which rules a descriptor",
    )
    _add_sources(parser)
    parser.add_argument("--route", default="", metavar="ID")
    parser.add_argument("--client", default="", metavar="ID", help="a registered consumer")
    parser.add_argument("--tier", default="", metavar="ID", help="for a client that is not registered")
    parser.add_argument("--domain", default="", metavar="NAME", help="of the rules")
    parser.add_argument(
        "--descriptor", action="append", default=[], metavar="KEY=VALUE,...", help="%%2C for a comma; may be repeated"
    )


def _add_revoke(commands: "Commands") -> None:
    parser = _add_command(
        commands, "revoke", "sidecar.revoke:revoke", "take a credential back on all sidecars, and say how far that is"
    )
    what = parser.add_argument_group("what is revoked, one of").add_mutually_exclusive_group(required=True)
    what.add_argument("--token", nargs=2, metavar=("ISS", "JTI"), help="one token of an issuer")
    what.add_argument("--subject", nargs=2, metavar=("ISS", "SUB"), help="all tokens of a user")
    what.add_argument("--kid", nargs=2, metavar=("ISS", "KID"), help="all tokens that a key has signed")
    what.add_argument("--client", metavar="ID", help="everything that a client comes with")
    what.add_argument("--api-key", metavar="ID", help="an API key, by the part before its dot")
    what.add_argument("--certificate", nargs=2, metavar=("ISSUER", "SERIAL"), help="RFC 4514 name, hexadecimal number")
    what.add_argument("--organisation", metavar="ID", help="all certificates of an organizationIdentifier")
    parser.add_argument("--before", type=_instant, metavar="T", help="only what was issued until then (or: now)")
    parser.add_argument("--expires", type=_instant, metavar="T", help="may be forgotten then (default: never)")
    parser.add_argument("--undo", action="store_true", help="take the revocation back")
    _add_feed(parser)


def _add_coverage(commands: "Commands") -> None:
    parser = _add_command(
        commands, "coverage", "sidecar.revoke:show_coverage", "say which live workers hold the newest revocation"
    )
    parser.add_argument("--version", default="", metavar="V", help="ask about this version of the feed")
    _add_feed(parser)


def _add_feed(parser: argparse.ArgumentParser) -> None:
    feed = parser.add_argument_group("where the feed is, one of").add_mutually_exclusive_group(required=True)
    feed.add_argument("--document", type=Path, metavar="FILE", help="the gateway document")
    feed.add_argument("--redis", default="", metavar="URL", help="the Redis itself")
    parser.add_argument(
        "--wait", type=_duration, nargs="?", const=30 * SECOND, metavar="TIME", help="until covered (default: 30s)"
    )


def _add_key(commands: "Commands") -> None:
    parser = _add_command(
        commands, "key", "sidecar.revoke:make_key", "make an API key: its record on stdout, the key once on stderr"
    )
    parser.add_argument("--client", required=True, metavar="ID", help="the consumer it stands for")
    parser.add_argument("--id", default="", metavar="ID", help="its public part (default: drawn at random)")
    parser.add_argument("--scope", action="append", default=[], metavar="SCOPE", help="may be repeated")
    parser.add_argument("--role", action="append", default=[], metavar="ROLE", help="may be repeated")
    parser.add_argument("--tenant", default="", metavar="ID")
    parser.add_argument("--not-before", type=_instant, metavar="T")
    parser.add_argument("--expires", type=_instant, metavar="T")
    parser.add_argument("--privileged", action="store_true", help="never accepted from a query")


def _instant(text: str) -> Instant:
    """Read an instant: "now", seconds since the epoch, or ISO 8601 with an offset."""
    if text == "now":
        return clock.now()
    if text.isdecimal() and len(text) <= 11:
        return int(text) * SECOND
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no instant; expected now, seconds, or 2027-01-31T12:00:00Z")
    return int(moment.timestamp()) * SECOND


def _duration(text: str) -> Duration:
    match = re.fullmatch(r"(\d{1,9})(ms|s|m)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; expected a number with ms, s or m, as in 250ms")
    return int(match[1]) * UNITS[match[2]]


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no count; expected a whole number from 1")
    return int(text)


def _mode(text: str) -> int:
    if re.fullmatch(r"0?[0-7]{3}", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no mode; expected three octal digits, as in 666")
    return int(text, 8)
