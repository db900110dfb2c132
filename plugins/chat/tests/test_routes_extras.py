"""What llama-server's requests may ask beside an answer: progress, timings, a slot, limits of time and indentation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from golem_host.http import streams
from golem_host_chat.generation import Extras
from scripted_chat import Script, Served, serving, sse_events

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
ASKED = {"messages": [{"role": "user", "content": "Hi"}], "prompt": "Hi"}


def run(folder: Path, scenario: Any, **options: Any) -> None:
    async def whole() -> None:
        async with serving(folder, **options) as served:
            await scenario(served)

    asyncio.run(whole())


async def events_of(served: Served, path: str, **body: Any) -> list[Any]:
    answer = await served.post(path, **ASKED, **body, stream=True)
    assert answer.status_code == 200, answer.text
    return sse_events(answer.text)[:-1]


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_progress_of_reading_the_prompt(tmp_path: Path, path: str) -> None:
    async def scenario(served: Served) -> None:
        events = await events_of(served, path, return_progress=True)
        reports = [event["prompt_progress"] for event in events if "prompt_progress" in event]
        prompt = len(served.model.asked[-1].prompt)
        assert [list(report) for report in reports] == [["total", "cache", "processed", "time_ms"]] * 2
        assert (reports[0]["processed"], reports[-1]["processed"]) == (reports[0]["cache"], prompt)
        assert {report["total"] for report in reports} == {prompt}
        choices = [event["choices"][0] for event in events]
        assert all(choice["finish_reason"] is None for choice in choices[:-1])
        if path == CHAT:
            assert [choice["delta"].get("role") for choice in choices].count("assistant") == 1
            assert choices[0]["delta"] == {"role": "assistant", "content": ""}
        assert not any("prompt_progress" in event for event in await events_of(served, path))
        whole = await served.post(path, **ASKED, return_progress=True)
        assert whole.status_code == 200 and "prompt_progress" not in whole.json()

    run(tmp_path, scenario)


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_timings_of_every_chunk(tmp_path: Path, path: str) -> None:
    async def scenario(served: Served) -> None:
        events = await events_of(served, path, timings_per_token=True)
        drawn = [event["timings"]["predicted_n"] for event in events if "timings" in event]
        assert drawn == [1, 2, 3, 4]
        assert [list(event["timings"]) for event in events if "timings" in event] == [list(events[-1]["timings"])] * 4
        assert sum("timings" in event for event in await events_of(served, path)) == 1

    run(tmp_path, scenario)


def test_what_arrives_at_the_lane(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for path in (CHAT, TEXT):
            body = {"id_slot": 2, "n_indent": 3, "t_max_predict_ms": 500}
            assert (await served.post(path, **ASKED, **body)).status_code == 200
            assert served.model.asked[-1].extras == Extras(slot=2, indent=3, milliseconds=500)
            neutral = {"id_slot": -1, "n_indent": 0, "t_max_predict_ms": -1, "sse_ping_interval": None}
            assert (await served.post(path, **ASKED, **neutral)).status_code == 200
            assert served.model.asked[-1].extras == Extras(milliseconds=-1)

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"id_slot": 4}, "Field 'id_slot': there is no slot 4: model 'scripted' has 4"),
        ({"id_slot": 1, "n": 2}, "Field 'id_slot': one slot draws one answer at a time, and n is 2"),
        ({"id_slot": -2}, "Field 'id_slot': expected a value from -1 to 2147483647, got -2"),
        ({"n_indent": -1}, "Field 'n_indent': expected a value from 0 to 2147483647, got -1"),
        ({"sse_ping_interval": -2}, "Field 'sse_ping_interval': expected a value from -1 to 2147483647, got -2"),
        ({"t_max_predict_ms": "soon"}, "Field 't_max_predict_ms': expected an integer, got a string"),
    ],
)
@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_refusals(tmp_path: Path, path: str, body: dict[str, Any], message: str) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.post(path, **ASKED, **body)
        assert (answer.status_code, answer.json()["error"]["message"]) == (400, message)

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("asked", "silence"), [({}, 15.0), ({"sse_ping_interval": 3}, 3.0), ({"sse_ping_interval": 0}, None)]
)
def test_seconds_of_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], silence: float | None
) -> None:
    """What the stream is told; that it keeps to it is for test_http_streams.py."""
    told: list[Any] = []

    class Watched(streams._Stream):
        def __init__(self, *arguments: Any) -> None:
            told.append(arguments[-1])
            super().__init__(*arguments)

    monkeypatch.setattr(streams, "_Stream", Watched)

    async def scenario(served: Served) -> None:
        await events_of(served, CHAT, **asked)

    run(tmp_path, scenario)
    assert told == [silence]


def test_an_answer_waits_for_its_slot_and_others_pass(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        first = asyncio.create_task(served.post(TEXT, prompt="endless", id_slot=0, max_tokens=60))
        while not served.model.asked:
            await asyncio.sleep(0.001)
        second = asyncio.create_task(served.post(TEXT, prompt="Hi", id_slot=0))
        await asyncio.sleep(0.01)
        third = await served.post(TEXT, prompt="Ho")
        assert third.status_code == 200 and not first.done() and not second.done()
        assert (await first).status_code == (await second).status_code == 200

    run(tmp_path, scenario, scripts={"endless": Script((b"x",), endless=True)}, slots=2, pass_seconds=0.005)
