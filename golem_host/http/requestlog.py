"""One line per request, written when it has really ended: after the last event of a stream, or when the client left."""

from __future__ import annotations

import json
import logging
import re
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from litestar import Request
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send, WebSocketScope

from golem_host.logs import REQUESTS
from golem_host.printable import printable

log = logging.getLogger(REQUESTS)

CLIENT_LEFT_STATUS = 499
"""What the log shows for a request whose client left before the status line (nginx's number; never sent)."""

_KEY = "golem_host.note"
_PLURAL = re.compile(r"(?<=\w\w)s\b")
_SOCKET_STATUS = {"accept": 101, "close": 403}
"""What a socket is answered with: switching protocols, or before that a refusal."""


@dataclass
class RequestNote:
    """What handlers add to a request's line.

    `prompt_tokens` are the prompt positions this request really read (the `cached` ones come on top), `drawn` the
    tokens it drew, times in milliseconds. `extra` are further counts under plurals, printed as `3 questions` and
    `1 question`. `error` and
    `client_left` are filled by the host.
    """

    slot: int | None = None
    waited_ms: float | None = None
    prompt_tokens: int | None = None
    prompt_ms: float | None = None
    cached: int | None = None
    drawn: int | None = None
    drawn_ms: float | None = None
    finish: str | None = None
    extra: dict[str, int | float | str] = field(default_factory=dict)
    error: str | None = None
    client_left: bool = False


def log_note(request: Request[Any, Any, Any]) -> RequestNote:
    """The note of a request, to be filled by its handler."""
    return scope_note(request.scope)


def scope_note(scope: Scope) -> RequestNote:
    """The note that belongs to an ASGI scope."""
    return scope.setdefault(_KEY, RequestNote())  # type: ignore[typeddict-item]


class RequestLog:
    """ASGI application around the whole host that writes the request lines, as text or as JSON objects."""

    def __init__(self, app: ASGIApp, *, as_json: bool) -> None:
        self.app = app
        self.as_json = as_json

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        method = scope["method"] if scope["type"] == "http" else "WEBSOCKET"
        started = time.monotonic()
        status, sent = 0, 0

        async def counting(message: Message) -> None:
            nonlocal status, sent
            await send(message)
            kind = message["type"].removeprefix("websocket.")
            if kind == "http.response.start":
                status = message["status"]  # type: ignore[typeddict-item]
            elif kind == "http.response.body" and method != "HEAD":
                sent += len(message.get("body", b""))
            elif kind in _SOCKET_STATUS:
                status = status or _SOCKET_STATUS[kind]
            elif kind == "send":
                sent += len(message.get("bytes") or message.get("text") or b"")

        note = scope_note(scope)
        try:
            await self.app(scope, receive, counting)
        finally:
            fields = {
                "method": method,
                "path": safe_path(scope),
                "status": status or CLIENT_LEFT_STATUS,
                "bytes": sent,
                "ms": (time.monotonic() - started) * 1e3,
            }
            log.info("%s", json_line(fields, note) if self.as_json else text_line(fields, note))


def safe_path(scope: HTTPScope | WebSocketScope) -> str:
    """The path without its query, percent-encoded wherever a character could forge or garble a line."""
    return quote(scope["path"], safe="/:@!$&'()*+,;=~-._")


def text_line(fields: dict[str, Any], note: RequestNote) -> str:
    """`POST /v1/chat/completions 200 284 bytes in 139ms — slot 0 — 21 prompt in 37ms (566.4/s), ...`."""
    head = f"{fields['method']} {fields['path']} {fields['status']} {fields['bytes']} bytes in {duration(fields['ms'])}"
    parts = [head, _place(note), _work(note), ", ".join(_counted(name, value) for name, value in note.extra.items())]
    if note.client_left:
        parts.append("client left")
    line = " — ".join(part for part in parts if part)
    return printable(f"{line}: {note.error}" if note.error else line)


def json_line(fields: dict[str, Any], note: RequestNote) -> str:
    """The same as one JSON object; what is not known is left out."""
    known = {
        "slot": note.slot,
        "waited_ms": note.waited_ms,
        "prompt_tokens": note.prompt_tokens,
        "prompt_ms": note.prompt_ms,
        "cached": note.cached,
        "drawn": note.drawn,
        "drawn_ms": note.drawn_ms,
        "finish": note.finish,
        **note.extra,
        "error": note.error,
        "client_left": note.client_left or None,
    }
    line = {"time": time.time(), **fields, **{name: value for name, value in known.items() if value is not None}}
    return json.dumps({name: round(v, 3) if isinstance(v, float) else v for name, v in line.items()})


def duration(milliseconds: float) -> str:
    """`412µs`, `139ms`, `2.35s`, `3m05s`."""
    if milliseconds < 1:
        return f"{milliseconds * 1000:.0f}µs"
    if milliseconds < 1000:
        return f"{milliseconds:.0f}ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.2f}s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    return f"{minutes}m{seconds:02d}s"


def _counted(name: str, value: int | float | str) -> str:
    """`3 questions`, `1 question`, `1 context token left out`, `1.0 s of audio`."""
    return f"{value} {re.sub(_PLURAL, '', name, count=1) if value == 1 and isinstance(value, int) else name}"


def _place(note: RequestNote) -> str:
    waited = note.waited_ms is not None and note.waited_ms >= 1
    parts = [
        f"slot {note.slot}" if note.slot is not None else "",
        f"waited {duration(note.waited_ms or 0)}" if waited else "",
    ]
    return ", ".join(part for part in parts if part)


def _work(note: RequestNote) -> str:
    parts = [
        _rate(note.prompt_tokens, "prompt", note.prompt_ms, 1),
        f"{note.cached} cached" if note.cached else "",
        _rate(note.drawn, "drawn", note.drawn_ms, 2),
        note.finish or "",
    ]
    return ", ".join(part for part in parts if part)


def _rate(count: int | None, what: str, milliseconds: float | None, digits: int) -> str:
    if count is None:
        return ""
    if not milliseconds:
        return f"{count} {what}"
    return f"{count} {what} in {duration(milliseconds)} ({count / milliseconds * 1e3:.{digits}f}/s)"
