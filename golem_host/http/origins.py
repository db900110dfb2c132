"""Origins: which web pages may call the host from a browser, and the CORS headers they need."""

from __future__ import annotations

import re
from collections.abc import Iterable

from golem_host.http.hosts import host_name, is_loopback

_ORIGIN = re.compile(r"(https?)://([^/\s]+)", re.ASCII)

METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
PREFLIGHT_SECONDS = 600


class OriginRule:
    """Pages of loopback origins, of the host's own origin, and of `allowed` origins (`https://app.example`, or `*`)."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = {origin.lower().rstrip("/") for origin in allowed}

    def allows(self, origin: str, host: str) -> bool:
        """Whether a page of `origin` may call, the request having come to `host` (its Host header)."""
        origin = origin.lower()
        if "*" in self._allowed or origin in self._allowed:
            return True
        match = _ORIGIN.fullmatch(origin)
        if match is None:
            return False
        name = host_name(match[2])
        return match[2] == host.lower() or (name is not None and is_loopback(name))


def answer_headers(origin: str) -> list[tuple[bytes, bytes]]:
    """What an answer to an allowed page carries."""
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", b"*"),
        (b"vary", b"Origin"),
    ]


def preflight_headers(requested: str) -> list[tuple[bytes, bytes]]:
    """What the answer to a preflight adds. The `requested` headers are allowed whatever they are: SDKs keep adding."""
    headers = [
        (b"access-control-allow-methods", METHODS.encode()),
        (b"access-control-max-age", str(PREFLIGHT_SECONDS).encode()),
    ]
    if requested:
        headers.append((b"access-control-allow-headers", requested.encode("latin-1")))
    return headers
