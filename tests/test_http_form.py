"""Forms: the file and the fields, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from golem_host.api import Route, read_form
from golem_host.testing.fakes import RoutesPlugin, plugin_set
from golem_host.testing.inprocess import running, settings_of


async def form_route(request: Any, host: Any) -> dict[str, Any]:
    form = await read_form(request, file="image")
    return {"size": None if form.file is None else len(form.file), "fields": form.fields, "tag": form.text("tag")}


def posted(folder: Path, **content: Any) -> httpx.Response:
    async def scenario() -> httpx.Response:
        plugin = RoutesPlugin([Route("POST", "/v1/form", form_route, dialect="openai", summary="Reads a form")])
        async with running(settings_of(folder), plugin_set(forms=plugin)) as (_, client):
            return await client.post("/v1/form", **content)

    return asyncio.run(scenario())


def test_the_file_and_all_values_of_fields(tmp_path: Path) -> None:
    files = [("image", ("a.png", b"12345")), ("tag", (None, "first")), ("tag", (None, "last")), ("k[]", (None, "é"))]
    answer = posted(tmp_path, files=files)
    assert answer.json() == {"size": 5, "fields": {"tag": ["first", "last"], "k": ["é"]}, "tag": "last"}


def test_no_file_and_no_field(tmp_path: Path) -> None:
    assert posted(tmp_path, files=[("other", (None, ""))]).json() == {
        "size": None,
        "fields": {"other": [""]},
        "tag": None,
    }


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        ({"json": {}}, 415, "send Content-Type: multipart/form-data"),
        ({"files": [("image", ("a", b"1")), ("image", ("b", b"2"))]}, 400, "Field 'image': one file at a time"),
        ({"files": [("tag", (None, "x" * 70_000))]}, 400, "over 65536 bytes together"),
        ({"files": [("tag", (None, b"\xff"))]}, 400, "not UTF-8"),
        ({"content": b"--x\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=x"}}, 400, "is no form"),
    ],
    ids=["json", "two files", "long fields", "half a character", "cut off"],
)
def test_what_is_refused(tmp_path: Path, content: dict[str, Any], status: int, words: str) -> None:
    answer = posted(tmp_path, **content)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]
