"""WebSockets: what becomes of one that is refused, and of what its handler raises."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

from litestar import Response, WebSocket
from litestar.exceptions import WebSocketDisconnect
from litestar.types import Send, WebSocketScope

from golem_host.errors import RequestError
from golem_host.http.disconnect import ClientLeft
from golem_host.http.envelopes import as_request_error, error_response
from golem_host.http.requestlog import scope_note

POLICY_VIOLATION, INTERNAL_ERROR = 1008, 1011
"""Close codes (RFC 6455, 7.4.1)."""
LONGEST_REASON = 120
"""Bytes of the reason in a close frame, which holds 123."""

SocketHandler = Callable[[WebSocket[Any, Any, Any], Any], Awaitable[None]]


async def deny(scope: WebSocketScope, send: Send, response: Response[bytes]) -> None:
    """Answer the request for a socket with an HTTP response; where the server cannot, the socket is closed."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": ""})
        return
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in response.headers.items()]
    headers.append((b"content-type", str(response.media_type).encode()))
    status = response.status_code or 403
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})  # type: ignore[arg-type, typeddict-item]
    await send({"type": "websocket.http.response.body", "body": response.content})  # type: ignore[arg-type, typeddict-item]


async def serve_socket(socket: WebSocket[Any, Any, Any], handler: SocketHandler, host: Any, dialect: str) -> None:
    """Run a route's handler, and tell the client what it raises."""
    note = scope_note(socket.scope)
    try:
        await handler(socket, host)
    except (ClientLeft, WebSocketDisconnect):
        note.client_left = True
    except Exception as error:
        known = as_request_error(error)
        note.error = known.message
        if socket.connection_state == "init":
            await deny(socket.scope, socket.send, error_response(known, dialect))
        elif socket.connection_state != "disconnect":
            await socket.close(INTERNAL_ERROR, _short(known))


def offered_keys(scope: WebSocketScope, names: tuple[str, ...]) -> str:
    """An API key in one of the headers or query parameters that a route names, or an empty text."""
    for name, value in scope["headers"]:
        if name.decode("latin-1").lower() in names:
            return value.decode("latin-1")
    query = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=100)
    return next((query[name][0] for name in names if name in query), "")


def _short(error: RequestError) -> str:
    """An error's words as the reason of a close frame."""
    return error.message.encode()[:LONGEST_REASON].decode("utf-8", "ignore")
