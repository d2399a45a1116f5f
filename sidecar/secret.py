"""Secrets of a document: it names where they are, and only the process that needs one reads it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from model.snapshot import Store


def read_secret(place: str, environment: Mapping[str, str]) -> str:
    """Read the secret that stands at `env:NAME` or `file:PATH`, without the line end of a file; "" for "".

    Raises ValueError, which names the place and never the secret.
    """
    if not place:
        return ""
    kind, _, name = place.partition(":")
    if kind == "env":
        if name not in environment:
            raise ValueError(f"the environment variable {name} is not set")
        return environment[name]
    try:
        return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{name}: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from error


def unlock_store(store: Store, environment: Mapping[str, str]) -> Store:
    """Put a store's secrets in the places of their names. Raises ValueError."""
    return replace(
        store,
        password=read_secret(store.password, environment),
        hash_key=read_secret(store.hash_key, environment),
    )
