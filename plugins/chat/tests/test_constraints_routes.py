"""Constraints asked for over HTTP, of a tiny model that really draws."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from golem_host import plugins
from golem_host.testing.inprocess import running, settings_of
from golem_host.testing.tiny import tiny_gguf
from scripted_chat import json_lines, serving, sse_events

CHOICE = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], "additionalProperties": False}
MESSAGES = [{"role": "user", "content": "Hi"}]
WRAPPED = {"type": "json_schema", "json_schema": {"name": "c", "schema": CHOICE, "strict": True}}
GRAMMAR = 'root ::= "x" | "y"'

Ask = Callable[..., Awaitable[httpx.Response]]


@asynccontextmanager
async def asking(folder: Path) -> AsyncIterator[Ask]:
    path = tiny_gguf(folder / "tiny.gguf", "llama", context=512, window=8)
    enabled = plugins.load(["chat"])
    settings = settings_of(folder, {"chat_model": str(path), "context": "2048"}, enabled.settings())
    async with running(settings, enabled) as (_, client):

        async def ask(route: str, **body: Any) -> httpx.Response:
            given: dict[str, Any] = {"messages": MESSAGES} if "chat" in route else {"prompt": "Hi"}
            if route.startswith("/api"):
                given["model"] = "tiny"
            return await client.post(route, json={**given, **body})

        yield ask


def content(route: str, response: httpx.Response) -> tuple[str, str]:
    """Text and finish reason of an answer, streamed or not."""
    assert response.status_code == 200, response.text
    if route.startswith("/api"):
        lines = json_lines(response.text) if response.text.endswith("\n") else [response.json()]
        texts = [line["message"]["content"] if "message" in line else line["response"] for line in lines]
        return "".join(texts), lines[-1]["done_reason"]
    if response.text.startswith("data:"):
        choices = [event["choices"][0] for event in sse_events(response.text)[:-1]]
        texts = [each["delta"].get("content", "") if "delta" in each else each["text"] for each in choices]
        return "".join(texts), choices[-1]["finish_reason"]
    choice = response.json()["choices"][0]
    return choice["message"]["content"] if "message" in choice else choice["text"], choice["finish_reason"]


def test_every_field_on_every_route(tmp_path: Path) -> None:
    """Whole and streamed answers are the same, and what was asked for."""
    asked: list[tuple[str, dict[str, Any], bool]] = []
    for route in ("/v1/chat/completions", "/v1/completions"):
        asked += [(route, {"response_format": WRAPPED}, True), (route, {"json_schema": CHOICE}, True)]
        asked += [(route, {"response_format": {"type": "json_object", "schema": CHOICE}}, True)]
        asked += [(route, {"grammar": GRAMMAR}, False)]
    asked += [(route, {"format": CHOICE}, True) for route in ("/api/chat", "/api/generate")]

    async def scenario() -> None:
        async with asking(tmp_path) as ask:
            for route, fields, is_json in asked:
                rules = {"options": {"seed": 3}} if route.startswith("/api") else {"seed": 3}
                whole = content(route, await ask(route, stream=False, **fields, **rules))
                streamed = content(route, await ask(route, stream=True, **fields, **rules))
                assert whole == streamed and whole[1] == "stop", (route, fields)
                assert (json.loads(whole[0])["a"] if is_json else whole[0]) in ("x", "y"), (route, fields)

    asyncio.run(scenario())


def test_json_objects(tmp_path: Path) -> None:
    """Of an unmoved model only the beginning is known: an object, which the limit cuts."""

    async def scenario() -> None:
        async with asking(tmp_path) as ask:
            for route, fields in (
                ("/v1/chat/completions", {"response_format": {"type": "json_object"}, "max_tokens": 5}),
                ("/api/chat", {"format": "json", "stream": False, "options": {"num_predict": 5}}),
                ("/api/generate", {"format": {}, "stream": False, "options": {"num_predict": 5}}),
            ):
                text, finish = content(route, await ask(route, **fields))
                assert text.startswith("{") and finish in ("length", "stop"), route

    asyncio.run(scenario())


def test_several_choices(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with asking(tmp_path) as ask:
            schema = {"type": "string", "minLength": 6, "maxLength": 6, "pattern": "^[a-z]*$"}
            response = await ask("/v1/chat/completions", json_schema=schema, n=4, seed=1, temperature=2)
            texts = [json.loads(choice["message"]["content"]) for choice in response.json()["choices"]]
            assert len(texts) == 4 and all(len(text) == 6 for text in texts) and len(set(texts)) > 1

    asyncio.run(scenario())


OPENAI_REFUSALS: list[tuple[dict[str, Any], str, str]] = [
    ({"response_format": "json"}, "response_format", "expected an object"),
    ({"response_format": {}}, "response_format.type", "got none"),
    ({"response_format": {"type": "xml"}}, "response_format.type", "got 'xml'"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema", "required"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": 123}}},
        "response_format.json_schema.schema",
        "expected an object",
    ),
    ({"response_format": {"type": "json_object", "schema": []}}, "response_format.schema", "expected an object"),
    (
        {"response_format": {"type": "json_object", "schema": {"not": {}}}},
        "response_format",
        "'not' at # is not enforced",
    ),
    ({"response_format": WRAPPED, "grammar": GRAMMAR}, "grammar", "together with 'response_format'"),
    ({"json_schema": CHOICE, "grammar": GRAMMAR}, "grammar", "together with 'json_schema'"),
    ({"json_schema": True}, "json_schema", "expected an object"),
    ({"json_schema": {"type": "string", "pattern": "a\\"}}, "json_schema", "backslash"),
    ({"grammar": 5}, "grammar", "expected a string"),
    ({"grammar": "root ::= x"}, "grammar", "there is no rule 'x'"),
]


@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/completions"])
def test_openai_refusals(tmp_path: Path, route: str) -> None:
    """By the field's name, before anything is queued, streamed or not."""

    async def scenario() -> None:
        async with serving(tmp_path) as served:
            given = {"messages": MESSAGES} if "chat" in route else {"prompt": "Hi"}
            for fields, param, words in OPENAI_REFUSALS:
                response = await served.post(route, **given, **fields, stream=bool(len(words) % 2))
                error = response.json()["error"]
                assert (response.status_code, error["param"]) == (400, param), fields
                assert error["type"] == "invalid_request_error"
                assert f"Field '{param}'" in error["message"] and words in error["message"], error
            assert served.model.asked == []
            for fields in ({"response_format": {"type": "text"}}, {"response_format": None}, {"grammar": ""}):
                assert (await served.post(route, **given, **fields)).status_code == 200
            assert all(generation.constraint is None for generation in served.model.asked)

    asyncio.run(scenario())


@pytest.mark.parametrize("route", ["/api/chat", "/api/generate"])
def test_ollama_refusals(tmp_path: Path, route: str) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            given = {"messages": MESSAGES} if "chat" in route else {"prompt": "Hi"}
            for value, words in (
                ("xml", "got 'xml'"),
                (["json"], "got an array"),
                (True, "got a boolean"),
                ({"if": {}}, "'if' at # is not enforced"),
                ({"type": "string", "format": "card"}, "format 'card'"),
            ):
                response = await served.post(route, model="scripted", format=value, **given)
                assert response.status_code == 400 and response.json().keys() == {"error"}
                assert "Field 'format'" in response.json()["error"] and words in response.json()["error"]
            assert served.model.asked == []

    asyncio.run(scenario())
