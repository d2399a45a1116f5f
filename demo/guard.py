"""What stands before a backend: the caller context must verify against the gateway's published keys, for this request.

The transcoder keeps the method and path that the client sent in two headers, so that a context bound to a request
(`path_sha256`) can be compared with it; a context stolen from one request does not open another.
"""

import http.client
import json
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any

from authz.verifier import ContextRefused, ContextVerifier

HEADER = "x-verified-caller-context"
GATEWAY = "https://gateway.open-banking.example"  # context.issuer of the gateway document
FETCH_LIMIT = 1.0  # seconds; asked at first need and for an unknown key only

Claims = Mapping[str, Any]


class Guard:
    """Verifies the caller contexts that arrive at one backend. `jwks` is the http URL of the gateway's keys."""

    def __init__(self, jwks: str, audience: str) -> None:
        place = urllib.parse.urlsplit(jwks)
        self._host, self._path = place.netloc, place.path
        self._verifier = ContextVerifier(self._fetch, audience=audience, issuer=GATEWAY, clock=time.time_ns)

    def verify(self, metadata: Mapping[str, str]) -> Claims | None:
        """Give the claims of the context in a call's metadata, None where there is none that holds."""
        method, path = (metadata.get(f"x-envoy-original-{name}", "") for name in ("method", "path"))
        try:
            return self._verifier.verify(metadata.get(HEADER), method=method, path=path).members
        except ContextRefused:
            return None

    def _fetch(self) -> Claims:
        connection = http.client.HTTPConnection(self._host, timeout=FETCH_LIMIT)
        try:
            connection.request("GET", self._path)
            keys: Claims = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return keys
