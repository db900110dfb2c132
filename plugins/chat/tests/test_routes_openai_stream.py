"""Streams of `/v1/chat/completions` and `/v1/completions`: framing, chunks, and the same text as without a stream."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from golem_host.errors import BadRequest, RequestError
from scripted_chat import Script, Served, serving, sse_events

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
USER = [{"role": "user", "content": "Hi"}]
EMOJI = "\U0001f600"

SCRIPTS = {
    "plain": Script(),
    "silent": Script(()),
    "bytes": Script(tuple(bytes([byte]) for byte in f"a{EMOJI}b".encode())),
    "broken": Script((b"a", b"\xf0\x9f", b"b", b"\xe4\xbd")),
    "stopped": Script((b"one O", b" P", b" Q two")),
    "half": Script((b"one O", b" P")),
    "held": Script((b" Al", b"ice!", b"\n")),
}
STOPS = ["O P Q", "\n\n", "Alice:"]


async def both(served: Served, path: str, **body: Any) -> tuple[dict[str, Any], list[Any]]:
    """The answer in one piece, and the events of the same answer streamed."""
    whole = await served.post(path, **body)
    assert whole.status_code == 200, whole.text
    streamed = await served.post(path, **body, stream=True)
    assert streamed.status_code == 200, streamed.text
    assert streamed.headers["content-type"] == "text/event-stream"
    assert streamed.headers["cache-control"] == "no-cache"
    events = sse_events(streamed.text)
    assert events[-1] == "[DONE]"
    return whole.json(), events[:-1]


def text_of(choice: dict[str, Any]) -> str:
    """The text of a choice, whole or in a chunk, of either route."""
    if "text" in choice:
        return choice["text"]
    return choice.get("message", choice.get("delta", {})).get("content", "")


def joined(events: list[Any], index: int) -> tuple[str, str | None]:
    """A choice's text and finish reason from its chunks."""
    choices = [choice for event in events for choice in event["choices"] if choice["index"] == index]
    assert all(choice["finish_reason"] is None for choice in choices[:-1])
    return "".join(text_of(choice) for choice in choices), choices[-1]["finish_reason"]


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_streams_equal_whole_answers(tmp_path: Path, path: str) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, scripts=SCRIPTS) as served:
            for word in SCRIPTS:
                for more in ({}, {"stop": STOPS}, {"max_tokens": 2}, {"max_tokens": 0}, {"n": 3, "stop": STOPS}):
                    prompt = {"messages": [{"role": "user", "content": word}]} if path == CHAT else {"prompt": word}
                    whole, events = await both(served, path, **prompt, **more)
                    for choice in whole["choices"]:
                        expected = (text_of(choice), choice["finish_reason"])
                        assert joined(events, choice["index"]) == expected, (word, more)
                    assert events[-1]["timings"].keys() == whole["timings"].keys()
                    assert events[-1]["timings"]["predicted_n"] == whole["timings"]["predicted_n"]

    asyncio.run(scenario())


def test_whole_characters_and_held_texts(tmp_path: Path) -> None:
    """Half characters and possible stop strings wait; each character is sent once."""

    async def scenario() -> None:
        async with serving(tmp_path, scripts=SCRIPTS) as served:
            pieces = {}
            for word in SCRIPTS:
                _, events = await both(served, TEXT, prompt=word, stop=STOPS)
                pieces[word] = [event["choices"][0]["text"] for event in events][:-1]
        assert pieces["bytes"] == ["a", EMOJI, "b"]
        assert "".join(pieces["broken"]) == "a\ufffdb\ufffd"
        assert pieces["stopped"] == ["one "]
        assert "".join(pieces["half"]) == "one O P"
        assert "".join(pieces["held"]) == " Alice!\n"

    asyncio.run(scenario())


def test_chat_chunks(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, name="served") as served:
            _, events = await both(served, CHAT, messages=USER, model="anything")
        deltas = [event["choices"][0]["delta"] for event in events]
        assert deltas[0] == {"role": "assistant", "content": ""}
        assert deltas[1:-1] == [{"content": "Hello"}, {"content": " there"}, {"content": "."}]
        assert deltas[-1] == {}
        assert [event["choices"][0]["finish_reason"] for event in events] == [None] * 4 + ["stop"]
        for event in events:
            assert event["object"] == "chat.completion.chunk"
            assert event["model"] == "served"
            assert (event["id"], event["created"]) == (events[0]["id"], events[0]["created"])
            assert "usage" not in event
            assert "error" not in event
        assert ["timings" in event for event in events] == [False] * 4 + [True]

    asyncio.run(scenario())


def test_text_chunks(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            _, events = await both(served, TEXT, prompt="abc")
        assert [event["choices"][0]["text"] for event in events] == ["Hello", " there", ".", ""]
        assert {event["object"] for event in events} == {"text_completion"}
        assert len({event["id"] for event in events}) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_usage_only_when_asked(tmp_path: Path, path: str) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            prompt = {"messages": USER} if path == CHAT else {"prompt": "abc"}
            whole, events = await both(served, path, **prompt, n=2, stream_options={"include_usage": True})
            _, without = await both(served, path, **prompt, n=2, stream_options={"include_usage": False})
        assert events[-1]["choices"] == []
        assert events[-1]["usage"] == whole["usage"]
        assert "timings" in events[-1]
        assert all(event["choices"] and "usage" not in event and "timings" not in event for event in events[:-1])
        assert all(event["choices"] and "usage" not in event for event in without)

    asyncio.run(scenario())


def test_several_choices_interleave(tmp_path: Path) -> None:
    """Each choice opens with its role, is told by its index and ends once."""

    async def scenario() -> None:
        async with serving(tmp_path, pass_seconds=0.01) as served:
            _, events = await both(served, CHAT, messages=USER, n=3)
        indexes = [event["choices"][0]["index"] for event in events]
        assert set(indexes) == {0, 1, 2}
        assert 3 in served.model.carried  # drawn side by side: no choice waits for another's end
        for index in range(3):
            own = [event["choices"][0] for event in events if event["choices"][0]["index"] == index]
            assert [choice["delta"].get("role") for choice in own] == ["assistant"] + [None] * (len(own) - 1)
            assert [choice["finish_reason"] for choice in own] == [None] * (len(own) - 1) + ["stop"]

    asyncio.run(scenario())


def test_error_before_any_text_is_a_status(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, scripts={"Hi": Script((), error=BadRequest("not this"))}) as served:
            response = await served.post(CHAT, messages=USER, stream=True)
            assert response.status_code == 400
            assert response.headers["content-type"] == "application/json"
            assert response.json()["error"]["message"] == "not this"

    asyncio.run(scenario())


def test_prompt_over_the_context_is_a_status(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, context=24) as served:
            response = await served.post(CHAT, messages=[{"role": "user", "content": "1" * 50}], stream=True)
            assert response.status_code == 400
            assert response.json()["error"]["code"] == "exceed_context_size_error"

    asyncio.run(scenario())


def test_error_after_text_is_the_only_content_of_the_last_event(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, scripts={"Hi": Script((b"a", b"b"), error=RequestError("broken"))}) as served:
            for count in (1, 3):
                events = sse_events((await served.post(CHAT, messages=USER, stream=True, n=count)).text)
                assert set(events[-1]) == {"error"}
                assert events[-1]["error"]["message"] == "broken"
                assert "[DONE]" not in events
            assert (await served.post(CHAT, messages=[{"role": "user", "content": "x"}])).status_code == 200

    asyncio.run(scenario())


def test_body_is_ascii(tmp_path: Path) -> None:
    """Python readers split lines at U+2028, U+2029 and U+0085 as well."""

    async def scenario() -> None:
        text = "a\u2028b\u2029c\u0085d"
        async with serving(tmp_path, scripts={"Hi": Script((text.encode(),))}) as served:
            response = await served.post(CHAT, messages=USER, stream=True)
        assert response.content.isascii()
        assert joined(sse_events(response.text)[:-1], 0)[0] == text

    asyncio.run(scenario())
