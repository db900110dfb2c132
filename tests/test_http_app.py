"""The application: routes of plugins, who claims what, handlers by name, unknown paths and methods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar import Response

from golem_host.app import build_app
from golem_host.errors import BadRequest, PluginError, UsageError
from golem_host.hookspecs import DemoModel, Route, hookimpl
from golem_host.host import Host
from golem_host.http.known_routes import PLUGIN_OF
from golem_host.plugins import load
from golem_host.testing.fakes import FakeModel, FakePlugin, RoutesPlugin, plugin_set
from golem_host.testing.inprocess import client_of, running, settings_of


async def hello(request: Any, host: Any) -> dict[str, Any]:
    return {"hello": request.path_params.get("name", "nobody")}


async def listing(request: Any, host: Any) -> list[int]:
    return [1, 2]


async def teapot(request: Any, host: Any) -> Response[bytes]:
    return Response(b"short", status_code=418, media_type="text/plain")


async def plain(request: Any, host: Any) -> Response[bytes]:
    return Response(b"posted", media_type="text/plain")


async def refusing(request: Any, host: Any) -> dict[str, Any]:
    raise BadRequest("no", param="x")


async def broken(request: Any, host: Any) -> dict[str, Any]:
    raise KeyError("internals")


async def unwritable(request: Any, host: Any) -> dict[str, Any]:
    return {"x": float("nan")}


def routes(*handlers: tuple[str, str, Any], dialect: str = "openai", **options: Any) -> RoutesPlugin:
    return RoutesPlugin([Route(method, path, handler, dialect, "x", **options) for method, path, handler in handlers])


def with_client(folder: Path, use: Callable[[httpx.AsyncClient], Awaitable[Any]], **plugins: Any) -> Any:
    async def go() -> Any:
        async with running(settings_of(folder), plugin_set(**plugins)) as (_, client):
            return await use(client)

    return asyncio.run(go())


def get(folder: Path, *paths: str, method: str = "GET", **plugins: Any) -> list[httpx.Response]:
    async def use(client: httpx.AsyncClient) -> list[httpx.Response]:
        return [await client.request(method, path) for path in paths]

    return with_client(folder, use, **plugins)


def test_what_handlers_return(tmp_path: Path) -> None:
    plugin = routes(("GET", "/hello/{name:path}", hello), ("GET", "/list", listing), ("GET", "/pot", teapot))
    named, listed, pot = get(tmp_path, "/hello/a%2Fb/c:d", "/list", "/pot", a=plugin)
    assert named.json() == {"hello": "/a/b/c:d"} and listed.json() == [1, 2]
    assert pot.status_code == 418 and pot.text == "short"
    [posted] = get(tmp_path, "/p", method="POST", a=routes(("POST", "/p", plain)))
    assert posted.status_code == 200, "a POST does not create anything"


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("openai", {"error": {"message": "no", "type": "invalid_request_error", "param": "x", "code": None}}),
        ("llama", {"error": {"code": 400, "message": "no", "type": "invalid_request_error"}}),
        ("ollama", {"error": "no"}),
        ("detail", {"detail": "no"}),
    ],
)
def test_errors_come_in_the_dialect_of_the_route(tmp_path: Path, dialect: str, body: Any) -> None:
    [answer] = get(tmp_path, "/x", a=routes(("GET", "/x", refusing), dialect=dialect))
    assert answer.status_code == 400 and answer.json() == body


@pytest.mark.parametrize("handler", [broken, unwritable])
def test_a_handler_that_breaks_harms_nobody_else(tmp_path: Path, handler: Any) -> None:
    plugin = routes(("GET", "/x", handler), ("GET", "/hello", hello))
    answer, other = get(tmp_path, "/x", "/hello", a=plugin)
    assert answer.status_code == 500 and answer.headers["x-should-retry"] == "false"
    assert "internals" not in answer.text and answer.json()["error"]["type"] == "server_error"
    assert other.status_code == 200


def test_unknown_paths_and_methods(tmp_path: Path) -> None:
    plugin = routes(("POST", "/v1/x", hello), ("GET", "/v1/x", hello), ("POST", "/api/x", hello))
    for path in ("/nowhere", "/v1/nowhere", "/apix"):
        [answer] = get(tmp_path, path, a=plugin)
        assert answer.status_code == 404
        assert answer.json()["error"]["message"] == f"no such route: GET {path}"
    [answer] = get(tmp_path, "/api/nowhere", a=plugin)
    assert answer.status_code == 404 and answer.json() == {"error": "no such route: GET /api/nowhere"}
    [answer] = get(tmp_path, "/v1/x", method="DELETE", a=plugin)
    assert answer.status_code == 405 and set(answer.headers["allow"].split(", ")) == {"POST", "GET", "OPTIONS"}
    [answer] = get(tmp_path, "/api/x", method="PATCH", a=plugin)
    assert answer.status_code == 405, "a known path keeps its route's dialect"
    assert answer.json()["error"]["message"].startswith("PATCH is not allowed on /api/x; allowed: ")


def test_a_route_of_a_plugin_that_is_not_enabled_says_how_to_have_it(tmp_path: Path) -> None:
    openai, ollama = get(tmp_path, "/v1/embeddings", "/api/chat", method="POST", a=routes(("GET", "/x", hello)))
    assert (openai.status_code, ollama.status_code) == (404, 404)
    assert openai.json()["error"]["message"] == (
        "no such route: POST /v1/embeddings; it is served with --enable embed and a model (--embed-model)"
    )
    assert "--enable chat and a model (--chat-model)" in ollama.json()["error"]


def test_the_known_routes_are_those_of_the_plugins() -> None:
    plugins = load(["chat", "embed", "krea2", "stt"])
    routes = {route.path: name for name, found in plugins.each("golem_routes") for route in found}
    own = {path for path in routes if path.startswith("/v1/images/progress")}  # no other API has it
    assert {path: name for path, name in routes.items() if path not in own} == PLUGIN_OF


def test_plugins_may_share_a_path_with_different_methods(tmp_path: Path) -> None:
    plugins: dict[str, Any] = {"a": routes(("GET", "/x", hello)), "b": routes(("POST", "/x", listing))}
    assert get(tmp_path, "/x", **plugins)[0].json() == {"hello": "nobody"}
    assert get(tmp_path, "/x", method="POST", **plugins)[0].json() == [1, 2]


@pytest.mark.parametrize("second", ["/x/{other:str}", "/x/{name:str}/"])
def test_a_route_of_two_plugins_names_both(tmp_path: Path, second: str) -> None:
    plugins = plugin_set(first=routes(("GET", "/x/{name:str}", hello)), second=routes(("GET", second, hello)))
    with pytest.raises(PluginError, match=r"GET /x/.* is claimed by plugin first and by plugin second"):
        build_app(Host(settings_of(tmp_path), plugins))


def test_a_plugin_cannot_take_a_route_of_the_host(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="GET /health is claimed by golem-host itself and by plugin a"):
        build_app(Host(settings_of(tmp_path), plugin_set(a=routes(("GET", "/health", hello)))))
    with pytest.raises(PluginError, match="HEAD / is claimed"):
        build_app(Host(settings_of(tmp_path), plugin_set(a=routes(("HEAD", "/", hello)))))


def test_handlers_may_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "named_routes_of_a_test.py").write_text("async def ok(request, host):\n    return {'ok': True}\n")
    monkeypatch.syspath_prepend(tmp_path)
    [answer] = get(tmp_path, "/x", a=routes(("GET", "/x", "named_routes_of_a_test:ok")))
    assert answer.json() == {"ok": True}


@pytest.mark.parametrize("handler", ["no_such_module_of_tests:x", "golem_host.errors:no_such_function", "golem_host"])
def test_a_handler_that_cannot_be_imported_names_plugin_and_route(tmp_path: Path, handler: str) -> None:
    with pytest.raises(PluginError, match=f"plugin a: the handler {handler} of GET /x cannot be imported"):
        build_app(Host(settings_of(tmp_path), plugin_set(a=routes(("GET", "/x", handler)))))


def test_an_unknown_dialect_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="plugin a: GET /x has the unknown dialect 'soap'"):
        build_app(Host(settings_of(tmp_path), plugin_set(a=routes(("GET", "/x", hello), dialect="soap"))))


def test_head_is_answered_without_a_body_where_it_is_served(tmp_path: Path) -> None:
    plugin = routes(("GET", "/x", hello), head=True)
    [answer] = get(tmp_path, "/x", method="HEAD", a=plugin)
    assert answer.status_code == 200 and answer.content == b"" and answer.headers["content-length"] == "18"
    [answer] = get(tmp_path, "/x", method="HEAD", a=routes(("GET", "/x", hello)))
    assert answer.status_code == 405 and answer.content == b""


def test_a_public_route_needs_no_key(tmp_path: Path) -> None:
    async def go() -> list[int]:
        plugins = plugin_set(a=routes(("GET", "/open", hello), public=True), b=routes(("GET", "/closed", hello)))
        async with running(settings_of(tmp_path, {"api_key": "k"}), plugins) as (_, client):
            return [(await client.get(path)).status_code for path in ("/open", "/closed")]

    assert asyncio.run(go()) == [200, 401]


def test_while_models_load_plugins_answer_503_and_the_host_answers(tmp_path: Path) -> None:
    model = FakeModel("m", path=Path(__file__))
    plugin = FakePlugin([model], [Route("GET", "/x", hello, "ollama", "x")])

    async def go() -> None:
        host = Host(settings_of(tmp_path), plugin_set(fake=plugin))
        async with client_of(host) as client:
            loading = await client.get("/x")
            assert loading.status_code == 503 and loading.json() == {"error": "Loading model"}
            assert loading.headers["retry-after"] == "1"
            health = await client.get("/health")
            assert health.status_code == 503 and health.json()["status"] == "loading"
            for path in ("/", "/api/version", "/v1/models", "/api/ps", "/api/tags"):
                assert (await client.get(path)).status_code == 200, path

    asyncio.run(go())


class DemoPlugin(FakePlugin):
    @hookimpl
    def golem_demo(self) -> list[DemoModel]:
        return [DemoModel("fake", "tiny", "fake-model", "tiny-model", "1.0", {}, 5, "MIT")]


@pytest.mark.parametrize(
    ("plugin", "flags", "hint"),
    [(DemoPlugin, {}, True), (DemoPlugin, {"demo": "true"}, False), (FakePlugin, {}, False)],
)
def test_a_demo_is_offered_where_there_is_one(
    tmp_path: Path, plugin: type[FakePlugin], flags: dict[str, str], hint: bool
) -> None:
    with pytest.raises(UsageError, match="give one with --fake-model PATH") as caught:
        Host(settings_of(tmp_path, flags), plugin_set(fake=plugin([])))
    assert ("--demo" in str(caught.value)) is hint


def test_the_banner_and_the_version(tmp_path: Path) -> None:
    banner, version = get(tmp_path, "/", "/api/version")
    assert banner.text.startswith("Ollama is running") and banner.headers["content-type"].startswith("text/plain")
    assert version.json()["version"].count(".") == 2 and version.json()["golem_host"]
