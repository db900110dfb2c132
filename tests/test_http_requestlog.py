"""Request lines: the wording of cli.md, JSON, and what cannot be forged."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.errors import BadRequest
from golem_host.hookspecs import Route
from golem_host.http.requestlog import RequestNote, duration, json_line, log_note, safe_path, text_line
from golem_host.http.streams import stream_reply
from golem_host.lanes.job import Job
from golem_host.testing.fakes import RoutesPlugin, plugin_set
from golem_host.testing.inprocess import running, settings_of

FIELDS = {"method": "POST", "path": "/v1/chat/completions", "status": 200, "bytes": 284, "ms": 139.2}


def note_of_a_chat(**changes: Any) -> RequestNote:
    known = {"slot": 0, "prompt_tokens": 21, "prompt_ms": 37.0757, "drawn": 8, "drawn_ms": 101.7165, "finish": "length"}
    return RequestNote(**{**known, **changes})


def test_the_line_of_a_chat() -> None:
    assert text_line(FIELDS, note_of_a_chat()) == (
        "POST /v1/chat/completions 200 284 bytes in 139ms — slot 0 — 21 prompt in 37ms (566.4/s), "
        "8 drawn in 102ms (78.65/s), length"
    )


def test_waiting_and_reuse_are_told_when_they_happened() -> None:
    line = text_line(FIELDS, note_of_a_chat(waited_ms=12.3, cached=56))
    assert "— slot 0, waited 12ms — 21 prompt in 37ms (566.4/s), 56 cached, 8 drawn" in line
    assert text_line(FIELDS, note_of_a_chat(waited_ms=0.9, cached=0)) == text_line(FIELDS, note_of_a_chat())


def test_other_endings() -> None:
    head = "POST /v1/chat/completions 200 284 bytes in 139ms"
    assert text_line(FIELDS, RequestNote()) == head
    assert (
        text_line(FIELDS, RequestNote(extra={"questions": 3, "positions": 77})) == f"{head} — 3 questions, 77 positions"
    )
    ones = {"texts": 1, "context tokens left out": 1, "choices": 2, "s of audio": 1.0, "class": "best"}
    told = "1 text, 1 context token left out, 2 choices, 1.0 s of audio, best class"
    assert text_line(FIELDS, RequestNote(extra=dict(ones))) == f"{head} — {told}"
    assert text_line(FIELDS, RequestNote(slot=1, client_left=True)) == f"{head} — slot 1 — client left"
    assert text_line(FIELDS, RequestNote(error="no such model")) == f"{head}: no such model"
    assert text_line(FIELDS, RequestNote(prompt_tokens=0, prompt_ms=0.0)) == f"{head} — 0 prompt"


def test_json_has_the_same_facts() -> None:
    line = json.loads(json_line(FIELDS, note_of_a_chat(waited_ms=12.3, extra={"questions": 3}, client_left=True)))
    assert line.pop("time") > 1e9
    assert line == {
        **FIELDS, "slot": 0, "waited_ms": 12.3, "prompt_tokens": 21, "prompt_ms": 37.076, "drawn": 8,
        "drawn_ms": 101.716, "finish": "length", "questions": 3, "client_left": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0.4123, "412µs"),
        (1.0, "1ms"),
        (999.4, "999ms"),
        (2350.0, "2.35s"),
        (185_000.0, "3m05s"),
        (3_600_000.0, "60m00s"),
    ],
)
def test_durations(milliseconds: float, text: str) -> None:
    assert duration(milliseconds) == text


@given(st.text(), st.text())
def test_no_path_or_message_breaks_the_line(path: str, message: str) -> None:
    scope: Any = {"path": path.encode("utf-8", "replace").decode()}
    fields = {**FIELDS, "path": safe_path(scope)}
    for line in (text_line(fields, RequestNote(error=message)), json_line(fields, RequestNote(error=message))):
        assert line.isprintable() and len(line.splitlines()) == 1


async def good(request: Any, host: Any) -> dict[str, Any]:
    log_note(request).slot = 3
    return {}


async def bad(request: Any, host: Any) -> dict[str, Any]:
    raise BadRequest("no\nforged line")


async def stream(request: Any, host: Any) -> Any:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"x" * 10
        log_note(request).drawn = 5
        yield b"y" * 10

    return await stream_reply(request, Job(None), chunks(), framing="ndjson", dialect="ollama", done=None)


ROUTES = [Route("GET", path, handler, "openai", "x") for path, handler in (("/g", good), ("/b", bad), ("/s", stream))]


def lines_of(folder: Path, caplog: pytest.LogCaptureFixture, *paths: str, **flags: str) -> list[str]:
    async def go() -> None:
        async with running(settings_of(folder, flags), plugin_set(x=RoutesPlugin(ROUTES))) as (_, client):
            for path in paths:
                await client.get(path)

    with caplog.at_level(logging.INFO, logger="golem_host.requests"):
        asyncio.run(go())
    return [record.getMessage() for record in caplog.records if record.name == "golem_host.requests"]


def test_each_request_has_one_line_at_its_real_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = lines_of(tmp_path, caplog, "/g", "/b", "/s", "/nowhere?key=secret")
    starts = ["GET /g 200 2 bytes in ", "GET /b 400 ", "GET /s 200 20 bytes in ", "GET /nowhere 404 "]
    assert [line.startswith(start) for line, start in zip(lines, starts, strict=True)] == [True] * 4
    ends = [" — slot 3", r": no\nforged line", " — 5 drawn", ": no such route: GET /nowhere"]
    assert [line.endswith(end) for line, end in zip(lines, ends, strict=True)] == [True] * 4


def test_a_refusal_of_the_policy_is_logged_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    [line] = lines_of(tmp_path, caplog, "/g", api_key="k")
    assert line.startswith("GET /g 401 ") and line.endswith(": Invalid API Key")


def test_the_json_format_is_chosen_by_its_setting(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    [line] = lines_of(tmp_path, caplog, "/g", log_format="json")
    assert json.loads(line)["slot"] == 3
