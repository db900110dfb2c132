"""Tools and reasoning through openai-python and ollama-python, unmodified, against a real server process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from golem_host.testing.tiny import tiny_gguf
from server_process import Clients, server
from tool_template import TOOL_TEMPLATE, WEATHER

ASK: Any = [{"role": "user", "content": "forecast"}]
PONDER: Any = [{"role": "user", "content": "ponder"}]
TOOLS: Any = [WEATHER]
CITIES = [{"city": "Oslo"}, {"city": "Köln"}]


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    folder = tmp_path_factory.mktemp("clients")
    model = tiny_gguf(folder / "tiny.gguf", "llama", metadata={"tokenizer.chat_template": TOOL_TEMPLATE})
    script = Path(__file__).with_name("scripted_server.py")
    with server(str(script), str(model), "addr=127.0.0.1:0", f"model-folder={folder}") as found:
        yield found


def arguments(calls: Any) -> list[Any]:
    return [json.loads(call.function.arguments) for call in calls]


def test_openai_calls_and_results(clients: Clients) -> None:
    create = clients.openai.chat.completions.create
    first = create(model="scripted", messages=ASK, tools=TOOLS, tool_choice="auto").choices[0]
    assert (first.finish_reason, first.message.content) == ("tool_calls", "I look.")
    assert first.message.tool_calls is not None
    assert arguments(first.message.tool_calls) == CITIES
    results: Any = [
        {"role": "tool", "tool_call_id": call.id, "content": "cold"} for call in reversed(first.message.tool_calls)
    ]
    history: Any = [*ASK, first.message.model_dump(exclude_none=True), *results]
    assert create(model="scripted", messages=history, tools=TOOLS).choices[0].finish_reason == "tool_calls"
    with pytest.raises(openai.BadRequestError) as unknown:
        create(model="scripted", messages=[*ASK, {"role": "tool", "tool_call_id": "x", "content": ""}], tools=TOOLS)
    assert unknown.value.param == "messages[1].tool_call_id"


def test_openai_calls_streamed(clients: Clients) -> None:
    with clients.openai.chat.completions.stream(model="scripted", messages=ASK, tools=TOOLS) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion().choices[0]
    assert (final.finish_reason, final.message.content) == ("tool_calls", "I look.")
    assert arguments(final.message.tool_calls) == CITIES
    assert kinds.count("tool_calls.function.arguments.done") == 2
    chunks = clients.openai.chat.completions.create(model="scripted", messages=ASK, tools=TOOLS, stream=True)
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert [call.index for call in calls] == [0, 1]
    assert len({call.id for call in calls}) == 2
    assert arguments(calls) == CITIES


def test_openai_reasoning(clients: Clients) -> None:
    create = clients.openai.chat.completions.create
    message = create(model="scripted", messages=PONDER, reasoning_effort="high").choices[0].message
    assert message.content == "Four."
    assert message.model_extra == {"reasoning_content": "four?"}
    history: Any = [*PONDER, message.model_dump(exclude_none=True), *PONDER]
    assert create(model="scripted", messages=history, reasoning_effort="high").choices[0].message.content == "Four."
    stream = create(model="scripted", messages=PONDER, reasoning_effort="high", stream=True)
    deltas = [chunk.choices[0].delta for chunk in stream]
    assert "".join((delta.model_extra or {}).get("reasoning_content", "") for delta in deltas) == "four?"
    assert "".join(delta.content or "" for delta in deltas) == "Four."


def test_ollama_calls_and_results(clients: Clients) -> None:
    def get_weather(city: str) -> str:
        """How it is outside

        Args:
          city: where
        """
        return city

    for tools in ([WEATHER], [get_weather]):
        message = clients.ollama.chat("scripted", messages=ASK, tools=tools).message
        assert message.content == "I look."
        assert [dict(call.function.arguments) for call in message.tool_calls or []] == CITIES
        results: Any = [{"role": "tool", "tool_name": "get_weather", "content": "cold"}] * 2
        again = clients.ollama.chat("scripted", messages=[*ASK, message, *results], tools=tools)
        assert again.message.tool_calls
        parts = list(clients.ollama.chat("scripted", messages=ASK, tools=tools, stream=True))
        calls = [call for part in parts for call in part.message.tool_calls or []]
        assert [dict(call.function.arguments) for call in calls] == CITIES
        assert "".join(part.message.content or "" for part in parts) == "I look."
        assert parts[-1].done
        assert parts[-1].done_reason == "stop"


def test_ollama_thinking(clients: Clients) -> None:
    message = clients.ollama.chat("scripted", messages=PONDER, think=True).message
    assert (message.thinking, message.content) == ("four?", "Four.")
    assert (
        clients.ollama.chat("scripted", messages=[*PONDER, message, *PONDER], think="low").message.thinking == "four?"
    )
    parts = list(clients.ollama.generate("scripted", "ponder", think=True, stream=True))
    assert "".join(part.thinking or "" for part in parts) == "four?"
    assert "".join(part.response or "" for part in parts) == "Four."
