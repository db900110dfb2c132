"""What clients probe first: the banner at `/` and the version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litestar import Request, Response

from golem_host.hookspecs import Route
from golem_host.http.writing import json_response, text_response

if TYPE_CHECKING:
    from golem_host.host import Host

OLLAMA_API = "0.6.4"
"""The release of Ollama whose API the `/api` routes follow (capabilities in `/api/show`): clients compare it."""


async def banner(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """Ollama's banner first, which some clients look for."""
    return text_response(f"Ollama is running (golem-host {host.version})")


async def version(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """The API version that Ollama's clients compare, and the host's own."""
    return json_response({"version": OLLAMA_API, "golem_host": host.version})


ROUTES = (
    Route("GET", "/", banner, dialect="ollama", summary="Banner", head=True),
    Route("GET", "/api/version", version, dialect="ollama", summary="API version and host version", head=True),
)
