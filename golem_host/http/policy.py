"""The listener's policy: what is refused before any route sees it (decisions.md C1).

`default` checks the Host, the Origin, API keys and the size of the body, and takes any Content-Type. `strict` is meant
for untrusted neighbours on the same machine: no chunked bodies, 16 MiB at most, JSON or a form only, 32 requests at
once, bounded headers, bounded waiting; its refusals are one sentence of plain text.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from typing import Any, cast

from litestar import Response
from litestar.types import (
    ASGIApp,
    HTTPReceiveMessage,
    HTTPScope,
    Message,
    Receive,
    Scope,
    Send,
    WebSocketReceiveMessage,
    WebSocketScope,
)

from golem_host.errors import (
    BadRequest,
    Forbidden,
    RequestError,
    Unauthorized,
    Unavailable,
    UnsupportedMediaType,
)
from golem_host.http.bodylimit import BodyLimit
from golem_host.http.disconnect import ClientLeft
from golem_host.http.envelopes import error_response
from golem_host.http.hosts import HostRule, StrictHostRule
from golem_host.http.keys import ApiKeys, configured_keys
from golem_host.http.origins import OriginRule, answer_headers, preflight_headers
from golem_host.http.progress import Requests
from golem_host.http.requestlog import scope_note
from golem_host.http.sockets import deny, offered_keys
from golem_host.http.writing import text_response

STRICT_BODY = 16 * 2**20
STRICT_REQUESTS = 32
"""Requests in progress at once. The server below keeps idle connections to itself, so connections are not counted."""
STRICT_LINE = 16 * 1024
STRICT_HEADERS = 100
STRICT_READ_SECONDS = 30.0
STRICT_WRITE_SECONDS = 120.0


class Policy:
    """ASGI application around the routes. `public` are the paths served without a key; `dialect_of` gives the error
    envelope of a path, `key_names` further headers and query parameters of a socket's path that may carry a key;
    `requests` is told of each request.

    Reads the settings addr, listener, allow-host, cors-origin, api-key, api-key-file and max-body; raises UsageError
    for an unusable key file.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: Mapping[str, Any],
        *,
        public: frozenset[str],
        dialect_of: Callable[[str], str],
        requests: Requests,
        key_names: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.app = app
        self._public = public
        self._key_names = key_names or {}
        self._dialect_of = dialect_of
        self._strict = settings["listener"] == "strict"
        bind, allowed = settings["addr"].host, settings["allow-host"]
        self._hosts = StrictHostRule(allowed) if self._strict else HostRule(bind, allowed)
        self._origins = OriginRule(settings["cors-origin"])
        self._keys = ApiKeys(configured_keys(settings))
        self._body_limit = min(settings["max-body"], STRICT_BODY) if self._strict else settings["max-body"]
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = _Headers(scope)
        # The disk bounds what is uploaded to it, unless the listener is strict.
        uncapped = _is_upload(scope["path"]) and not self._strict
        body = BodyLimit(
            receive,
            limit=sys.maxsize if uncapped else self._body_limit,
            content_length=headers.content_length,
            read_seconds=STRICT_READ_SECONDS if self._strict else None,
        )
        answer = _Answer(scope, send, STRICT_WRITE_SECONDS if self._strict else None, self._requests)
        try:
            with self._requests.one():
                await self._serve(scope, headers, body, answer)
        except ClientLeft:
            scope_note(scope).client_left = True
        await body.discard()

    async def _serve(self, scope: HTTPScope, headers: _Headers, body: BodyLimit, answer: _Answer) -> None:
        try:
            if self._strict:
                self._check_strict(scope, headers)
            self._check_host(scope, headers)
            origin = headers.get("origin")
            if origin:
                self._check_origin(origin, headers)
                answer.headers += answer_headers(origin)
            if scope["method"] == "OPTIONS":
                if origin and headers.get("access-control-request-method"):
                    answer.headers += preflight_headers(headers.get("access-control-request-headers"))
                    await _send_response(Response(b"", status_code=204), scope, answer)
                    return
            elif scope["path"] not in self._public:
                self._keys.check(headers.get("authorization"), headers.get("x-api-key"))
            body.check_announced()
        except RequestError as error:
            scope_note(scope).error = error.message
            await _send_response(self._refusal(error, scope["path"]), scope, answer)
            return

        async def receive() -> HTTPReceiveMessage:
            if body.complete:  # from then on it is the end of the connection that is waited for
                return await body.receive()
            with self._requests.waiting_for_client():
                return await body.receive()

        await self.app(scope, receive, answer.send)

    async def _socket(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        headers = _Headers(scope)
        with self._requests.one():
            try:
                if self._strict:
                    raise BadRequest("this listener takes no WebSockets")
                self._check_host(scope, headers)
                origin = headers.get("origin")
                if origin:
                    self._check_origin(origin, headers)
                if scope["path"] not in self._public:
                    further = offered_keys(scope, self._key_names.get(scope["path"], ()))
                    self._keys.check(headers.get("authorization"), headers.get("x-api-key") or further)
            except RequestError as error:
                scope_note(scope).error = error.message
                await deny(scope, send, self._refusal(error, scope["path"]))
                return

            async def waiting() -> WebSocketReceiveMessage:
                with self._requests.waiting_for_client():
                    return cast("WebSocketReceiveMessage", await receive())

            async def sending(message: Message) -> None:
                with self._requests.waiting_for_client():
                    await send(message)

            try:
                await self.app(scope, waiting, sending)
            except asyncio.CancelledError:  # the server stops; nobody waits for what it says of that
                scope_note(scope).client_left = True

    def _check_strict(self, scope: HTTPScope, headers: _Headers) -> None:
        if self._requests.in_progress > STRICT_REQUESTS:
            raise Unavailable(f"more than {STRICT_REQUESTS} requests are in progress")
        if len(scope.get("raw_path") or scope["path"].encode()) + len(scope["query_string"]) > STRICT_LINE:
            raise BadRequest("the request line is over 16 KiB")
        if headers.longest > STRICT_LINE or headers.count > STRICT_HEADERS:
            raise BadRequest("a header line is over 16 KiB, or there are more than 100 of them")
        if headers.get("transfer-encoding"):
            raise BadRequest("send Content-Length")
        if scope["method"] == "POST" and not _json_or_upload(scope["path"], headers.get("content-type")):
            raise UnsupportedMediaType("send Content-Type: application/json")

    def _check_host(self, scope: HTTPScope | WebSocketScope, headers: _Headers) -> None:
        hosts = headers.all("host")
        if len(hosts) > 1:
            raise BadRequest("more than one Host header")
        # HTTP/1.0 knows no Host header; no browser that could be rebound speaks it.
        if (hosts and hosts[0]) or scope["http_version"] not in ("1", "1.0"):
            if not hosts or not hosts[0]:
                raise BadRequest("the Host header is missing")
            self._hosts.check(hosts[0])

    def _check_origin(self, origin: str, headers: _Headers) -> None:
        if not self._origins.allows(origin, headers.get("host")):
            raise Forbidden(
                f"pages of {origin[:100]} may not call this host; if they should, start it with --cors-origin ORIGIN"
            )

    def _refusal(self, error: RequestError, path: str) -> Response[bytes]:
        if self._strict and not isinstance(error, Unauthorized):
            return text_response(error.message, status=error.status, headers=error.headers)
        return error_response(error, self._dialect_of(path))


class _Headers:
    """The headers of a scope by lower-case name."""

    def __init__(self, scope: HTTPScope | WebSocketScope) -> None:
        self._pairs = [(name.lower(), value) for name, value in scope["headers"]]
        self.count = len(self._pairs)
        self.longest = max((len(name) + len(value) + 4 for name, value in self._pairs), default=0)

    def all(self, name: str) -> list[str]:
        return [value.decode("latin-1").strip() for key, value in self._pairs if key == name.encode()]

    def get(self, name: str) -> str:
        """The first value, or an empty text."""
        return next(iter(self.all(name)), "")

    @property
    def content_length(self) -> int | None:
        value = self.get("content-length")
        return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else None


class _Answer:
    """Sends with the policy's own headers, without a body for HEAD, each piece within `write_seconds` if given."""

    def __init__(self, scope: HTTPScope, send: Send, write_seconds: float | None, requests: Requests) -> None:
        self._head = scope["method"] == "HEAD"
        self._send = send
        self._write_seconds = write_seconds
        self._requests = requests
        self.headers: list[tuple[bytes, bytes]] = []

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *self.headers]
        elif message["type"] == "http.response.body" and self._head:
            message["body"] = b""
        try:
            with self._requests.waiting_for_client():
                async with asyncio.timeout(self._write_seconds):
                    await self._send(message)
        except TimeoutError:
            raise ClientLeft from None


def _json_or_upload(path: str, content_type: str) -> bool:
    kind = content_type.lower()
    return kind.startswith(("application/json", "multipart/form-data")) or _is_upload(path)


def _is_upload(path: str) -> bool:
    return path.startswith("/api/blobs/")


async def _send_response(response: Response[bytes], scope: HTTPScope, answer: _Answer) -> None:
    application = response.to_asgi_response(app=None, request=None)  # type: ignore[arg-type]
    await application(scope, _no_message, answer.send)  # type: ignore[arg-type]


async def _no_message() -> None:
    raise RuntimeError("an answer in one piece reads nothing")
