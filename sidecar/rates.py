"""How the rate limit service's own rules are run: where they are, how they are read, where they are counted."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from model.fields import FAMILIES
from model.quota import Algorithm
from model.snapshot import Store
from ratelimit.imported import RulesInvalid, load_rules
from ratelimit.rules import Rules
from ratelimit.service import Options
from sidecar.failure import CommandFailed

SCHEMES = frozenset(("redis", "rediss", "unix"))
PLACES = ("env:", "file:")

SWITCHES = {
    "shadow": "SHADOW_MODE",
    "soft": "QUOTA_MODE",
    "describe": "RESPONSE_DYNAMIC_METADATA",
    "merge_domains": "MERGE_DOMAIN_CONFIG",
}
"""Switches of the command line, and the variables by which envoyproxy/ratelimit knows them."""

SWITCHED = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)
"""The words of a switch in the environment: those of Go's `strconv.ParseBool`, by which the reference reads them."""


@dataclass(frozen=True, slots=True)
class Rates:
    """A folder of rules and what holds for all of them; `store` is where they are counted without a document."""

    folder: Path
    merge: bool = False
    algorithm: Algorithm = Algorithm.WINDOW
    options: Options = field(default_factory=Options)
    store: Store = field(default_factory=Store)

    def load(self) -> Rules:
        """Read the rules. Raises RulesInvalid with every fault of every file."""
        return load_rules(self.folder, merge_domains=self.merge, algorithm=self.algorithm)


def need_source(options: Namespace, document: str = "FILE") -> None:
    """See that there is a document, rules or both. Raises CommandFailed; `document` is how it is given there."""
    if options.document is None and options.ratelimit_config is None:
        raise CommandFailed(f"nothing to go by: {document}, --ratelimit-config DIR or both")


def read_rates(options: Namespace, environment: Mapping[str, str]) -> Rates | None:
    """Read the command line's `--ratelimit-...` and `--store...`; None without a folder. Raises CommandFailed."""
    if options.ratelimit_config is None:
        _refuse_strays(options, ("ratelimit_", "store"), "--ratelimit-config")
        return None
    if not options.store:
        _refuse_strays(options, ("store_",), "--store")
    switched = {name: _read_switch(options, name, environment) for name in SWITCHES}
    return Rates(
        options.ratelimit_config,
        switched["merge_domains"],
        Algorithm(options.ratelimit_algorithm or Algorithm.WINDOW),
        Options(
            families=read_families(options.ratelimit_headers),
            all_shadow=switched["shadow"],
            all_soft=switched["soft"],
            describe=switched["describe"],
            drain=options.ratelimit_drain,
        ),
        _read_store(options),
    )


def open_rates(options: Namespace, environment: Mapping[str, str]) -> tuple[Rates, Rules]:
    """Read rules for a command that asks about them and counts nothing. Raises CommandFailed with every fault."""
    merge = _read_switch(options, "merge_domains", environment)
    rates = Rates(options.ratelimit_config, merge)
    try:
        return rates, rates.load()
    except RulesInvalid as faults:
        raise CommandFailed(str(faults)) from faults


def read_families(text: str | None) -> tuple[str, ...]:
    """Read names of rate limit fields, joined by commas; None is `draft`. Raises CommandFailed."""
    if text is None:
        return ("draft",)
    families = tuple(name for name in text.split(",") if name and name != "none")
    if unknown := set(families) - set(FAMILIES):
        known = ", ".join((*FAMILIES, "none"))
        raise CommandFailed(f"--ratelimit-headers: unknown {min(unknown)!r}; expected {known}")
    return families


def _refuse_strays(options: Namespace, prefixes: tuple[str, ...], needed: str) -> None:
    for name, value in vars(options).items():
        if name.startswith(prefixes) and value:
            raise CommandFailed(f"--{name.replace('_', '-')} needs {needed}")


def _read_switch(options: Namespace, name: str, environment: Mapping[str, str]) -> bool:
    """Read a switch: the command line's, else the environment's."""
    if getattr(options, f"ratelimit_{name}", False):
        return True
    text = environment.get(SWITCHES[name], "false")
    if text not in SWITCHED:
        raise CommandFailed(f"{SWITCHES[name]}={text!r}: expected true or false")
    return SWITCHED[text]


def _read_store(options: Namespace) -> Store:
    if not options.store:
        return Store()
    store = Store(
        "redis",
        options.store_topology or "single",
        tuple(url for urls in options.store for url in urls.split(",")),
        options.store_service or "",
        username=options.store_user or "",
        password=options.store_password or "",
        ca=options.store_ca or "",
        certificate=options.store_cert or "",
        key=options.store_key or "",
    )
    if fault := _find_fault(store):
        raise CommandFailed(fault)
    return store


def _find_fault(store: Store) -> str | None:
    for url in store.urls:
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or "@" in parts.netloc:
            # what stands before the @ may be a password: never repeat it
            found = url.rpartition("@")[2]
            return f"--store {found}: expected redis://, rediss:// or unix://, and the password in --store-password"
    if store.topology == "single" and len(store.urls) > 1:
        return "--store: several addresses need --store-topology sentinel or cluster"
    if (store.topology == "sentinel") != bool(store.service):
        return "--store-topology sentinel and --store-service NAME need each other"
    if store.password and not store.password.startswith(PLACES):
        return "--store-password: expected env:NAME or file:PATH, never the password itself"
    return None
