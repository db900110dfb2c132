"""The host as a litestar application: its own routes and the plugins', inside listener policy and request log."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from litestar import Litestar, Request, Response, WebSocket
from litestar.handlers import HTTPRouteHandler, WebsocketRouteHandler

from golem_host.errors import PluginError, Unavailable
from golem_host.hookspecs import Route
from golem_host.http import added_models, blobs, health, hub_models, known_routes, metrics, models, openapi, root
from golem_host.http.disconnect import ClientLeft
from golem_host.http.envelopes import DIALECTS, as_request_error, error_response
from golem_host.http.policy import Policy
from golem_host.http.requestlog import CLIENT_LEFT_STATUS, RequestLog, log_note
from golem_host.http.sockets import serve_socket
from golem_host.http.writing import json_response
from golem_host.plugins import REPORT
from golem_host.printable import described

if TYPE_CHECKING:
    from golem_host.host import Host

OWN = "golem-host itself"

SOCKET = "WEBSOCKET"
"""The method of a route that is a WebSocket."""

Handler = Callable[[Any, Any], Awaitable[Any]]


def build_app(host: Host) -> Litestar:
    """The ASGI application of a host; `host.start()` and `host.stop()` stay with the caller.

    Raises PluginError for a route that two parties claim, a handler that cannot be imported, or an unknown dialect, and
    UsageError for settings the listener cannot use.
    """
    table = route_table(host)
    dialects = {route.path: route.dialect for _, route in table if "{" not in route.path}
    app = Litestar(
        route_handlers=[_litestar_handler(owner, route, host) for owner, route in table],
        exception_handlers={Exception: lambda request, error: _routing_error(request, error, dialects)},
        openapi_config=None,
        request_max_body_size=None,
        logging_config=None,
    )
    app.state.host = host
    public = frozenset(route.path for _, route in table if route.public)
    policy = Policy(
        app.asgi_handler,
        host.settings,
        public=public,
        dialect_of=lambda path: path_dialect(path, dialects),
        key_names={route.path: route.key_names for _, route in table},
        requests=host.requests,
    )
    # Outside litestar's router, so that unknown paths pass the same checks and are logged too.
    app.asgi_handler = RequestLog(policy, as_json=host.settings["log-format"] == "json")
    return app


def route_table(host: Host) -> list[tuple[str, Route]]:
    """Who serves what: the host's own routes and those of the enabled plugins. Raises PluginError for duplicates."""
    changing = (added_models.ROUTES, blobs.ROUTES, hub_models.ROUTES)
    own = (root.ROUTES, health.routes(), models.ROUTES, metrics.ROUTES, openapi.ROUTES, *changing)
    table = [(OWN, route) for routes in own for route in routes]
    for plugin, routes in host.plugins.each("golem_routes"):
        table += [(f"plugin {plugin}", route) for route in routes]
    claimed: dict[tuple[str, str], str] = {}
    for owner, route in table:
        for method in _methods(route):
            key = (method, _shape(route.path))
            if key in claimed:
                what = f"leave {owner.split()[-1]} out of --enable" if claimed[key] == OWN else "enable one of them"
                raise PluginError(f"{method} {route.path} is claimed by {claimed[key]} and by {owner}; {what}")
            claimed[key] = owner
    return table


def path_dialect(path: str, known: dict[str, str]) -> str:
    """The error envelope of a path: its route's, else by prefix, Ollama's under `/api` and OpenAI's elsewhere."""
    default = "ollama" if path == "/api" or path.startswith("/api/") else "openai"
    return known.get(path, default)


def _methods(route: Route) -> list[str]:
    return [route.method, "HEAD"] if route.head else [route.method]


def _shape(path: str) -> str:
    """The path with nameless parameters: two paths of one shape cannot be told apart."""
    return re.sub(r"\{[^:}]*", "{", "/" + path.strip("/"))


def _litestar_handler(owner: str, route: Route, host: Host) -> HTTPRouteHandler | WebsocketRouteHandler:
    if route.dialect not in DIALECTS:
        raise PluginError(
            f"{owner}: {route.method} {route.path} has the unknown dialect {route.dialect!r}; "
            f"known: {', '.join(DIALECTS)}; {REPORT}"
        )
    handler = _import_handler(owner, route)
    if route.method == SOCKET:

        async def socket_endpoint(socket: WebSocket) -> None:
            await serve_socket(socket, ready, host, route.dialect)

        async def ready(socket: WebSocket, host: Host) -> None:
            _require_started(owner, host)
            await handler(socket, host)

        return WebsocketRouteHandler(route.path)(socket_endpoint)

    async def endpoint(request: Request) -> Response:
        try:
            _require_started(owner, host)
            answer = await handler(request, host)
        except ClientLeft:
            log_note(request).client_left = True
            return Response(b"", status_code=CLIENT_LEFT_STATUS)
        except Exception as error:
            known = as_request_error(error)
            log_note(request).error = known.message
            return error_response(known, route.dialect)
        return answer if isinstance(answer, Response) else json_response(answer)

    decorate = HTTPRouteHandler(route.path, http_method=_methods(route), status_code=200)  # type: ignore[arg-type]
    return decorate(endpoint)


def _require_started(owner: str, host: Host) -> None:
    if owner != OWN and host.started is None:
        raise Unavailable("Loading model")


def _import_handler(owner: str, route: Route) -> Handler:
    handler = route.handler
    if isinstance(handler, str):
        module, _, name = handler.partition(":")
        try:
            handler = getattr(importlib.import_module(module), name)
        except (Exception, SystemExit) as error:
            raise PluginError(
                f"{owner}: the handler {route.handler} of {route.method} {route.path} cannot be imported: "
                f"{described(error)}; {REPORT}"
            ) from error
    if not inspect.iscoroutinefunction(handler):
        raise PluginError(f"{owner}: the handler of {route.method} {route.path} is no `async def` function; {REPORT}")
    return handler


def _routing_error(request: Request[Any, Any, Any], error: Exception, dialects: dict[str, str]) -> Response[bytes]:
    """What litestar itself refuses: unknown paths (404) and methods (405, with Allow)."""
    known = as_request_error(error)
    method, path = request.scope["method"], request.scope["path"]
    if known.status == 404:
        known.message = f"no such route: {method} {path}{known_routes.hint(path)}"
    elif known.status == 405:
        known.message = f"{method} is not allowed on {path}; allowed: {known.headers.get('allow', 'nothing')}"
    log_note(request).error = known.message
    return error_response(known, path_dialect(path, dialects))
