"""One conversation through every API: the same prompt reaches the model, and its answer comes back the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from named_events import named_events
from scripted_chat import Script, Served, json_lines, serving, sse_events
from tool_template import TIME, TOOL_TEMPLATE, WEATHER

OSLO = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
NOW = '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'


def drawn(text: str) -> Script:
    """A model that writes `text`, a byte a token."""
    return Script(tuple(bytes([byte]) for byte in text.encode()))


SCRIPTS = {
    "plain": drawn("It is cold \U0001f600\u2028in Oslo. \n"),
    "silent": Script(()),
    "thinking": drawn("It is\nwinter.\n</think>\n\nCold."),
    "wondering": drawn("It is winter"),
    "calling": drawn(f"winter\n</think>\n\nI look.\n\n{OSLO}\n{NOW}"),
    "broken": drawn(f"{OSLO} and <tool_call>\n7"),
}

PLAIN = ("plain", "silent")
"""Answers that are nothing but content, so that they are the same before they are read."""


@dataclass(frozen=True)
class Asked:
    """A conversation that ends with a question, in no API's words, and how it is to be answered."""

    word: str
    thinks: bool = False
    most: int | None = None
    stop: str | None = None


@dataclass
class Said:
    """What an API told of an answer."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    finish: str = ""
    tokens: tuple[int, int] = (0, 0)
    """Of the prompt, and drawn."""


def chat_messages(asked: Asked, *, objects: bool) -> list[dict[str, Any]]:
    """The conversation in OpenAI's words, or with arguments as `objects` and `thinking` in Ollama's."""
    arguments: Any = {"city": "Rome"} if objects else '{"city": "Rome"}'
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": arguments}},
        {"id": "c2", "type": "function", "function": {"name": "get_time", "arguments": {} if objects else "{}"}},
    ]
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How is Rome?"},
        {
            "role": "assistant",
            "content": "I look.",
            "thinking" if objects else "reasoning_content": "Rome is a city.",
            "tool_calls": calls,
        },
        {"role": "tool", "tool_call_id": "c2", "content": "noon"},
        {"role": "tool", "tool_call_id": "c1", "content": "hot"},
        {"role": "assistant", "content": "Hot at noon."},
        {"role": "user", "content": asked.word},
    ]


def given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


async def post(served: Served, path: str, body: dict[str, Any], stream: bool) -> Any:
    """The answer in one piece, or its events."""
    response = await served.post(path, **body, stream=stream)
    assert response.status_code == 200, response.text
    if not stream:
        return response.json()
    if response.headers["content-type"] == "application/x-ndjson":
        return json_lines(response.text)
    if response.text.startswith("event: "):
        return named_events(response.text)
    return [event for event in sse_events(response.text) if event != "[DONE]"]


async def openai_chat(served: Served, asked: Asked, stream: bool) -> Said:
    body = {
        "messages": chat_messages(asked, objects=False),
        "tools": [WEATHER, TIME],
        "chat_template_kwargs": {"enable_thinking": asked.thinks},
        "stream_options": {"include_usage": True},
        **given(max_tokens=asked.most, stop=asked.stop),
    }
    answer = await post(served, "/v1/chat/completions", body, stream)
    choices = [event["choices"][0] for event in answer[:-1]] if stream else answer["choices"]
    said = Said(finish=choices[-1]["finish_reason"])
    for part in (choice["delta" if stream else "message"] for choice in choices):
        said.text += part.get("content") or ""
        said.reasoning += part.get("reasoning_content") or ""
        for call in part.get("tool_calls", []):
            said.calls.append((call["function"]["name"], json.loads(call["function"]["arguments"])))
    usage = (answer[-1] if stream else answer)["usage"]
    said.tokens = usage["prompt_tokens"], usage["completion_tokens"]
    return said


async def ollama_chat(served: Served, asked: Asked, stream: bool) -> Said:
    body = {
        "model": "scripted",
        "messages": chat_messages(asked, objects=True),
        "tools": [WEATHER, TIME],
        "think": asked.thinks,
        "options": given(num_predict=asked.most, stop=asked.stop),
    }
    answer = await post(served, "/api/chat", body, stream)
    lines = answer if stream else [answer]
    said = Said(finish=lines[-1]["done_reason"])
    for part in (line["message"] for line in lines):
        said.text += part["content"]
        said.reasoning += part.get("thinking", "")
        said.calls += [(call["function"]["name"], call["function"]["arguments"]) for call in part.get("tool_calls", [])]
    if said.calls and said.finish == "stop":
        said.finish = "tool_calls"
    said.tokens = lines[-1]["prompt_eval_count"], lines[-1]["eval_count"]
    return said


async def responses(served: Served, asked: Asked, stream: bool) -> Said:
    items: list[dict[str, Any]] = [
        {"role": "user", "content": "How is Rome?"},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Rome is a city."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"city": "Rome"}'},
        {"type": "function_call", "call_id": "c2", "name": "get_time", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c2", "output": "noon"},
        {"type": "function_call_output", "call_id": "c1", "output": "hot"},
        {"role": "assistant", "content": "Hot at noon."},
        {"role": "user", "content": [{"type": "input_text", "text": asked.word}]},
    ]
    body = {
        "input": items,
        "instructions": "Be brief.",
        "tools": [{"type": "function", **tool["function"]} for tool in (WEATHER, TIME)],
        "reasoning": {"effort": "medium" if asked.thinks else "none"},
        **given(max_output_tokens=asked.most, stop=asked.stop),
    }
    answer = await post(served, "/v1/responses", body, stream)
    whole = answer[-1]["response"] if stream else answer
    said = Said(finish={"completed": "stop", "incomplete": "length"}[whole["status"]])
    for item in whole["output"]:
        if item["type"] == "function_call":
            said.calls.append((item["name"], json.loads(item["arguments"])))
        elif item["type"] == "message":
            said.text += item["content"][0]["text"]
        else:
            said.reasoning += item["content"][0]["text"]
    if stream:
        deltas = [event["delta"] for event in answer if event["type"] == "response.output_text.delta"]
        assert "".join(deltas) == said.text
    if said.calls and said.finish == "stop":
        said.finish = "tool_calls"
    said.tokens = whole["usage"]["input_tokens"], whole["usage"]["output_tokens"]
    return said


async def messages(served: Served, asked: Asked, stream: bool) -> Said:
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": "How is Rome?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Rome is a city.", "signature": ""},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "get_weather", "input": {"city": "Rome"}},
                {"type": "tool_use", "id": "c2", "name": "get_time", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c2", "content": "noon"},
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "hot"}]},
            ],
        },
        {"role": "assistant", "content": "Hot at noon."},
        {"role": "user", "content": asked.word},
    ]
    tools = [
        {
            "name": tool["function"]["name"],
            "input_schema": tool["function"].get("parameters", {}),
            **given(description=tool["function"].get("description")),
        }
        for tool in (WEATHER, TIME)
    ]
    body = {
        "messages": turns,
        "system": "Be brief.",
        "tools": tools,
        "thinking": {"type": "adaptive" if asked.thinks else "disabled"},
        **given(max_tokens=asked.most, stop_sequences=asked.stop and [asked.stop]),
    }
    answer = await post(served, "/v1/messages", body, stream)
    said = Said()
    if stream:
        delta = answer[-2]
        reason, usage = delta["delta"]["stop_reason"], delta["usage"]
        names = [event["content_block"]["name"] for event in answer if event.get("content_block", {}).get("name")]
        deltas = [event["delta"] for event in answer if event["type"] == "content_block_delta"]
        said.text = "".join(delta.get("text", "") for delta in deltas)
        said.reasoning = "".join(delta.get("thinking", "") for delta in deltas)
        inputs = [json.loads(delta["partial_json"]) for delta in deltas if "partial_json" in delta]
        said.calls = list(zip(names, inputs, strict=True))
    else:
        reason, usage = answer["stop_reason"], answer["usage"]
        said.text = "".join(block.get("text", "") for block in answer["content"])
        said.reasoning = "".join(block.get("thinking", "") for block in answer["content"])
        said.calls = [(block["name"], block["input"]) for block in answer["content"] if block["type"] == "tool_use"]
    reasons = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls"}
    said.finish = reasons[reason]
    assert (reason == "stop_sequence") == (asked.stop is not None and said.finish == "stop")
    said.tokens = usage["input_tokens"] + usage["cache_read_input_tokens"], usage["output_tokens"]
    return said


async def llama_server(served: Served, asked: Asked, stream: bool) -> Said:
    """`/apply-template`, then `/completion`, whose content is the answer as it was drawn."""
    kwargs = {"enable_thinking": asked.thinks}
    conversation = {"messages": chat_messages(asked, objects=False), "tools": [WEATHER, TIME]}
    rendered = await served.post("/apply-template", **conversation, chat_template_kwargs=kwargs)
    body = {"prompt": rendered.json()["prompt"], **given(n_predict=asked.most, stop=asked.stop and [asked.stop])}
    answer = await post(served, "/completion", body, stream)
    last = answer[-1] if stream else answer
    text = "".join(event["content"] for event in answer) if stream else answer["content"]
    finish = {"eos": "stop", "word": "stop", "limit": "length"}[last["stop_type"]]
    return Said(text, finish=finish, tokens=(last["tokens_evaluated"], last["tokens_predicted"]))


Shape = Callable[[Served, Asked, bool], Awaitable[Said]]
SHAPES: Sequence[Shape] = (openai_chat, ollama_chat, responses, messages)


def run(folder: Path, scenario: Callable[[Served], Awaitable[None]]) -> None:
    async def whole() -> None:
        metadata = {"tokenizer.chat_template": TOOL_TEMPLATE}
        async with serving(folder, scripts=SCRIPTS, context=4096, metadata=metadata) as served:
            await scenario(served)

    asyncio.run(whole())


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (Asked("plain"), Said("It is cold \U0001f600\u2028in Oslo. \n", finish="stop")),
        (Asked("plain", most=12), Said("It is cold \ufffd", finish="length")),
        (Asked("plain", stop="Oslo"), Said("It is cold \U0001f600\u2028in ", finish="stop")),
        (Asked("silent"), Said(finish="stop")),
        (Asked("thinking", thinks=True), Said("Cold.", "It is\nwinter.", finish="stop")),
        (Asked("wondering", thinks=True, most=5), Said("", "It is", finish="length")),
        (
            Asked("calling", thinks=True),
            Said("I look.", "winter", [("get_weather", {"city": "Oslo"}), ("get_time", {})], "tool_calls"),
        ),
        (Asked("broken"), Said("and <tool_call>\n7", "", [("get_weather", {"city": "Oslo"})], "tool_calls")),
    ],
)
def test_every_api_gives_the_same_answer(tmp_path: Path, asked: Asked, expected: Said) -> None:
    async def scenario(served: Served) -> None:
        tokens = set()
        shapes = [*SHAPES, llama_server] if asked.word in PLAIN else SHAPES
        for shape in shapes:
            for stream in (False, True):
                said = await shape(served, asked, stream)
                tokens.add(said.tokens)
                said.tokens = (0, 0)
                assert said == expected, (shape.__name__, stream)
        prompts = [generation.prompt for generation in served.model.asked]
        assert prompts == [prompts[0]] * 2 * len(shapes)
        assert len(tokens) == 1
        assert tokens.pop()[0] == len(prompts[0])

    run(tmp_path, scenario)
