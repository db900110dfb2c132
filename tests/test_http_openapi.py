"""The description of all routes: one of each, names that resolve, and every field that a README calls honoured."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from golem_host import plugins
from golem_host.app import route_table
from golem_host.hookspecs import Route
from golem_host.http.openapi import document
from golem_host.http.own_operations import OPERATIONS
from golem_host.testing.fakes import RoutesPlugin, plugin_set
from golem_host.testing.inprocess import running, settings_of

ROOT = Path(__file__).parents[1]
NAMES = ("chat", "embed", "laya", "stt", "krea2")


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    found = plugins.load(NAMES)
    routes = [(name, route) for name, own in found.each("golem_routes") for route in own]
    operations = {key: said for _, own in found.each("golem_openapi") for key, said in own.items()}
    assert set(operations) <= {f"{route.method} {route.path}" for _, route in routes}
    return document(routes, operations, "1")


def test_the_hosts_document_has_every_route_once(tmp_path: Path) -> None:
    async def echo(request: Any, host: Any) -> dict[str, Any]:
        return {}

    async def go() -> None:
        routes = [Route("POST", "/v1/echo/{name:str}", echo, "detail", "Echoes", public=True)]
        async with running(settings_of(tmp_path), plugin_set(echo=RoutesPlugin(routes))) as (host, client):
            found = (await client.get("/schema/openapi.json")).json()
            table = route_table(host)
        assert found["openapi"] == "3.1.0"
        listed = [(method.upper(), path) for path, methods in found["paths"].items() for method in methods]
        expected = [
            (method, re.sub(r":[^}]*}", "}", route.path))
            for _, route in table
            for method in ([route.method, "HEAD"] if route.head else [route.method])
        ]
        assert sorted(listed) == sorted(expected)
        identifiers = [
            described["operationId"] for methods in found["paths"].values() for described in methods.values()
        ]
        assert len(set(identifiers)) == len(identifiers)
        echoed = found["paths"]["/v1/echo/{name}"]["post"]
        assert echoed["parameters"][0]["name"] == "name" and echoed["security"] == []
        assert echoed["responses"]["400"]["content"]["application/json"]["schema"] == {
            "$ref": "#/components/schemas/DetailError"
        }
        own = {f"{route.method} {route.path}" for _, route in table}
        assert set(OPERATIONS) <= own

    asyncio.run(go())


def test_every_reference_leads_somewhere(described: dict[str, Any]) -> None:
    def references(node: Any) -> list[str]:
        if isinstance(node, dict):
            own = [node["$ref"]] if "$ref" in node else []
            return own + [found for value in node.values() for found in references(value)]
        return [found for value in node for found in references(value)] if isinstance(node, list) else []

    found = set(references(described))
    assert found
    for reference in found:
        node: Any = described
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]


@pytest.mark.parametrize(
    ("path", "heading", "column"),
    [
        ("/v1/chat/completions", "`/v1/chat/completions` and `/v1/completions`", 1),
        ("/v1/completions", "`/v1/chat/completions` and `/v1/completions`", 2),
        ("/v1/responses", "`/v1/responses`", 1),
        ("/v1/messages", "`/v1/messages`", 1),
        ("/api/chat", "`/api/chat` and `/api/generate`", 1),
        ("/api/generate", "`/api/chat` and `/api/generate`", 2),
    ],
)
def test_every_field_that_is_honoured_is_described(
    described: dict[str, Any], path: str, heading: str, column: int
) -> None:
    readme = (ROOT / "plugins/chat/README.md").read_text(encoding="utf-8")
    section = readme.split(f"### {heading}\n", 1)[1].split("\n#", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:3] == "| `"]
    honoured = {row[0].strip("`") for row in rows if row[column] == "honoured"}
    assert honoured
    body = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert honoured - set(body["properties"]) == set()


@pytest.mark.parametrize("plugin", ["stt", "krea2"])
def test_every_field_of_a_readme_is_described(described: dict[str, Any], plugin: str) -> None:
    """Those of `served` fields; refused ones are told with their reason."""
    path, kind = {
        "stt": ("/v1/audio/transcriptions", "multipart/form-data"),
        "krea2": ("/v1/images/generations", "application/json"),
    }[plugin]
    readme = (ROOT / f"plugins/{plugin}/README.md").read_text(encoding="utf-8")
    content = described["paths"][path]["post"]["requestBody"]["content"]
    assert list(content) == [kind]
    fields = content[kind]["schema"]["properties"]
    assert len(fields) >= 7
    for field in fields:
        assert f"`{field}`" in readme, field
