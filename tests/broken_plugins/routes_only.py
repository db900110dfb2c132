"""Nothing is wrong with it: two routes, no model, and not a word about conformance."""

from typing import Any

from golem_host.api import Route, hookimpl

GOLEM_HOST_API = 1


async def hello(request: Any, host: Any) -> dict[str, str]:
    return {"hello": host.version}


async def echo(request: Any, host: Any) -> dict[str, Any]:
    from golem_host.api import read_json

    return await read_json(request)


@hookimpl
def golem_routes() -> list[Route]:
    return [
        Route("GET", "/v1/hello", hello, dialect="openai", summary="Says hello"),
        Route("POST", "/v1/echo", echo, dialect="detail", summary="Says it back"),
    ]
