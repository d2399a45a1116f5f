"""What stands before a backend: the caller context must verify against the sidecar's published keys."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self


class Guard:
    """Verifies caller contexts for one audience."""

    def __init__(self, jwks: str, audience: str) -> None:
        self._jwks = jwks
        self._audience = audience

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        return None

    async def verify(self, text: str) -> Mapping[str, Any] | None:
        """Give the claims of a context that verifies, else None."""
        return None
