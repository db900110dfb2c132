"""`GET /schema/openapi.json`: every route of this host with its body, its answers and its errors, as OpenAPI 3.1."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from litestar import Request, Response

from golem_host.hookspecs import Operation, Route
from golem_host.http.own_operations import OPERATIONS
from golem_host.http.schemas import ERRORS, OBJECT
from golem_host.http.writing import json_response

if TYPE_CHECKING:
    from golem_host.host import Host

PATH = "/schema/openapi.json"

_REASONS = {
    400: "The request cannot be honoured as written; the message names the field",
    401: "No known API key (where keys are set)",
    403: "The Host or Origin is not allowed here",
    404: "No such model",
    405: "The path exists, the method does not",
    413: "The body is over --max-body",
    415: "Compressed, a form, or no JSON where the listener is strict",
    500: "A fault inside the host, or a model that cannot be loaded; `x-should-retry: false`",
    503: "Loading, stopping, or the queue is full; `Retry-After`",
}
_ALWAYS = (400, 401, 403, 404, 405, 413, 415, 500, 503)

_INTRODUCTION = """\
Models of many kinds behind the APIs that clients already speak. Null is the same as an absent field, everywhere; fields
that are not listed are taken and without effect, and those that are known and cannot be honoured are refused by name.
Which is which stands in the README of each plugin."""


def document(routes: Iterable[tuple[str, Route]], operations: Mapping[str, Operation], version: str) -> dict[str, Any]:
    """The OpenAPI document of `routes` (owner, route), WebSockets left out, for which OpenAPI has no words.

    `operations` by `METHOD /path` say more of some of them.
    """
    paths: dict[str, dict[str, Any]] = {}
    for owner, route in routes:
        if route.method == "WEBSOCKET":
            continue
        said = operations.get(f"{route.method} {route.path}", Operation())
        path = re.sub(r"\{([^:}]*):[^}]*\}", r"{\1}", route.path)
        described = _operation(owner, route, said)
        paths.setdefault(path, {})[route.method.lower()] = described
        if route.head:
            answers = {"200": {"description": "The headers of GET"}}
            paths[path]["head"] = {
                **described,
                "operationId": f"head{described['operationId']}",
                "responses": {**described["responses"], **answers},
            }
    return {
        "openapi": "3.1.0",
        "info": {"title": "golem-host", "version": version, "description": _INTRODUCTION},
        "security": [{}, {"bearer": []}, {"key": []}],
        "paths": paths,
        "components": {
            "schemas": {_schema_name(dialect): schema for dialect, schema in ERRORS.items()},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            },
        },
    }


def _operation(owner: str, route: Route, said: Operation) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}{re.sub(r'[^A-Za-z0-9]+', '_', route.path)}",
        "summary": route.summary,
        "tags": [owner],
        "responses": _responses(route, said),
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"\{([^:}]*):", route.path)
    ]
    parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in said.query.items()]
    if parameters:
        operation["parameters"] = parameters
    if route.method in ("POST", "DELETE"):
        operation["requestBody"] = {
            "required": True,
            "content": {said.takes: {"schema": OBJECT if said.body is None else said.body}},
        }
    if route.public:
        operation["security"] = []
    return operation


def _responses(route: Route, said: Operation) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if said.gives:
        content[said.gives] = {"schema": OBJECT if said.answer is None else said.answer}
    for kind in (said.streams, *said.others):
        if kind:
            content[kind] = {}
    responses: dict[str, Any] = {"200": {"description": "The answer", **({"content": content} if content else {})}}
    error = {"$ref": f"#/components/schemas/{_schema_name(route.dialect)}"}
    for status, reason in {**{status: _REASONS[status] for status in _ALWAYS}, **said.statuses}.items():
        known: dict[str, Any] = {"description": reason}
        if status >= 400:
            known["content"] = {"application/json": {"schema": error}}
        responses[str(status)] = known
    return responses


def _schema_name(dialect: str) -> str:
    return f"{dialect.capitalize()}Error"


async def openapi(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """The document of the routes that this host serves now."""
    from golem_host.app import route_table

    operations = dict(OPERATIONS)
    for _, said in host.plugins.each("golem_openapi"):
        operations.update(said)
    return json_response(document(route_table(host), operations, host.version))


ROUTES = (Route("GET", PATH, openapi, dialect="openai", summary="This description"),)
