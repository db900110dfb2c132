"""Forms: the file and the fields, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from golem_host.api import BadRequest, Fields, Form, Route, read_form
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
        ({"files": [("tag", (None, b"\xff"))]}, 400, "Field 'tag': is not UTF-8"),
        ({"files": [("audio", ("a", b"\xff" * 70_000))]}, 400, "Field 'audio' is a file; the file goes into 'image'"),
        ({"content": b"--x\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=x"}}, 400, "is no form"),
    ],
    ids=["json", "two files", "long fields", "half a character", "a file elsewhere", "cut off"],
)
def test_what_is_refused(tmp_path: Path, content: dict[str, Any], status: int, words: str) -> None:
    answer = posted(tmp_path, **content)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]


def test_a_refusal_names_the_field(tmp_path: Path) -> None:
    for files in ([("audio[]", ("a", b"1"))], [("audio", (None, b"\xff"))]):
        assert posted(tmp_path, files=files).json()["error"]["param"] == "audio"


TYPED = Form(None, {"on": ["TRUE"], "many": ["1", "3.0"], "half": ["0.5"], "none": [""], "words": ["a", "", "b", ""]})


def test_fields_are_read_by_type() -> None:
    fields = TYPED.reader()
    assert fields.boolean("on") is True and fields.boolean("none", False) is False
    assert (fields.integer("many"), fields.number("many"), fields.number("half")) == (3, 3.0, 0.5)
    assert fields.array("words") == ["a", "b"] and fields.array("none") is None
    assert fields.string("words") == TYPED.text("words") == "b" and not fields.has("none")
    fields.refuse_others("on", "many", "half", "words")


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda fields: fields.boolean("words"), "Field 'words': expected a boolean, got 'b'"),
        (lambda fields: fields.integer("half"), "Field 'half': expected an integer, got '0.5'"),
        (lambda fields: fields.integer("many", 1, 1, 2), "Field 'many': expected a value from 1 to 2, got 3"),
        (lambda fields: fields.number("on"), "Field 'on': expected a number, got 'TRUE'"),
        (lambda fields: fields.object("words"), "Field 'words': expected an object, got 'b'"),
        (lambda fields: fields.refuse_others("on", "many", "words"), "Field 'half' is not known here"),
    ],
)
def test_values_are_refused_by_name(read: Callable[[Fields], object], words: str) -> None:
    with pytest.raises(BadRequest, match=words) as caught:
        read(TYPED.reader())
    assert caught.value.param == words.split("'")[1]


@pytest.mark.parametrize("text", ["nan", "inf", "-1e999"])
def test_a_number_is_finite(text: str) -> None:
    with pytest.raises(BadRequest, match="Field 'n': expected a finite number"):
        Form(None, {"n": [text]}).reader().number("n")
    with pytest.raises(BadRequest, match="Field 'n': expected an integer"):
        Form(None, {"n": [text]}).reader().integer("n")
