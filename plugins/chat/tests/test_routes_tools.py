"""Tools on `/v1/chat/completions` and `/api/chat`: declared, called, answered; the same whole and streamed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from constraint_checks import Masks
from golem_host.text.tokenizer import tokenizer_from_gguf
from golem_host.weights.gguf import open_gguf
from scripted_chat import Script, Served, json_lines, serving, sse_events
from tool_template import TIME, TOOL_TEMPLATE, WEATHER

OPENAI = "/v1/chat/completions"
OLLAMA = "/api/chat"
OSLO = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
NOW = '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'


def drawn(text: str) -> Script:
    """A model that writes `text`, a character a token."""
    return Script(tuple(character.encode() for character in text))


SCRIPTS = {
    "one": drawn(OSLO),
    "prose": drawn(f"I look.\n\n{OSLO}"),
    "two": drawn(f"{OSLO}\n{NOW}"),
    "nothing": drawn("It is cold. \n"),
    "broken": drawn('Well <tool_call>\n{"name": 7}\n</tool_call>'),
    "open": drawn(OSLO[:-20]),
}


def run(folder: Path, scenario: Callable[[Served], Awaitable[None]], template: str = TOOL_TEMPLATE) -> None:
    async def whole() -> None:
        metadata = {"tokenizer.chat_template": template}
        async with serving(folder, scripts=SCRIPTS, context=4096, metadata=metadata) as served:
            await scenario(served)

    asyncio.run(whole())


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


async def answer(served: Served, path: str, word: str, **body: Any) -> dict[str, Any]:
    """The one choice of an answer in one piece."""
    body = {"model": "scripted", "messages": user(word), "tools": [WEATHER, TIME], "stream": False, **body}
    response = await served.post(path, **body)
    assert response.status_code == 200, response.text
    return response.json()["choices"][0] if path == OPENAI else response.json()


def bare(calls: list[dict[str, Any]]) -> list[Any]:
    """Names and arguments of calls."""
    return [(call["function"]["name"], call["function"]["arguments"]) for call in calls]


def test_calls_whole(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        one = await answer(served, OPENAI, "one")
        assert one["finish_reason"] == "tool_calls"
        assert one["message"]["content"] == ""
        [call] = one["message"]["tool_calls"]
        assert call["type"] == "function"
        assert call["id"].startswith("call_")
        assert call["function"] == {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
        assert "reasoning_content" not in one["message"]
        prose = await answer(served, OPENAI, "prose")
        assert prose["message"]["content"] == "I look."
        assert bare(prose["message"]["tool_calls"]) == bare([call])
        two = (await answer(served, OPENAI, "two"))["message"]["tool_calls"]
        assert bare(two) == [("get_weather", '{"city": "Oslo"}'), ("get_time", "{}")]
        assert len({call["id"] for call in two}) == 2
        none = await answer(served, OPENAI, "nothing")
        assert (none["message"]["content"], none["finish_reason"]) == ("It is cold. \n", "stop")
        assert "tool_calls" not in none["message"]

    run(tmp_path, scenario)


def test_calls_whole_on_ollama(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        two = await answer(served, OLLAMA, "two")
        assert two["done_reason"] == "stop"
        assert two["message"]["content"] == ""
        assert bare(two["message"]["tool_calls"]) == [("get_weather", {"city": "Oslo"}), ("get_time", {})]
        assert "tool_calls" not in (await answer(served, OLLAMA, "nothing"))["message"]

    run(tmp_path, scenario)


@pytest.mark.parametrize("word", SCRIPTS)
def test_streams_equal_whole_answers(tmp_path: Path, word: str) -> None:
    async def scenario(served: Served) -> None:
        for more in ({}, {"max_tokens": 30}, {"stop": ["Oslo"]}, {"stop": ["cold"]}):
            whole = await answer(served, OPENAI, word, **more)
            body = {"messages": user(word), "tools": [WEATHER, TIME], "stream": True, **more}
            events = sse_events((await served.post(OPENAI, **body)).text)[:-1]
            choices = [event["choices"][0] for event in events]
            deltas = [choice["delta"] for choice in choices]
            assert "".join(delta.get("content") or "" for delta in deltas) == whole["message"]["content"]
            calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
            assert bare(calls) == bare(whole["message"].get("tool_calls", []))
            assert [call["index"] for call in calls] == list(range(len(calls)))
            assert len({call["id"] for call in calls}) == len(calls)
            assert choices[-1]["finish_reason"] == whole["finish_reason"]
            assert [choice["finish_reason"] for choice in choices[:-1]] == [None] * (len(choices) - 1)
            assert deltas[0] == {"role": "assistant", "content": ""}
            assert all("role" not in delta for delta in deltas[1:])

            options = {"num_predict": 30} if "max_tokens" in more else more
            whole = await answer(served, OLLAMA, word, options=options)
            body = {"model": "scripted", "messages": user(word), "tools": [WEATHER, TIME], "options": options}
            lines = json_lines((await served.post(OLLAMA, **body)).text)
            assert "".join(line["message"]["content"] for line in lines) == whole["message"]["content"]
            calls = [call for line in lines for call in line["message"].get("tool_calls", [])]
            assert bare(calls) == bare(whole["message"].get("tool_calls", []))
            for each in (calls, whole["message"].get("tool_calls", [])):
                assert [(call["index"], call["function"]["index"]) for call in each] == [
                    (n, n) for n in range(len(each))
                ]
            assert lines[-1]["done_reason"] == whole["done_reason"]
            assert not any(line["done"] for line in lines[:-1])
            assert not any(line["message"].get("tool_calls") for line in lines if line["done"])

    run(tmp_path, scenario)


def test_what_is_no_call_stays_text(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for word in ("broken", "open"):
            choice = await answer(served, OPENAI, word)
            text = b"".join(SCRIPTS[word].pieces).decode()
            assert (choice["message"]["content"], choice["finish_reason"]) == (text, "stop")
            assert "tool_calls" not in choice["message"]
        cut = await answer(served, OPENAI, "one", max_tokens=30)
        assert (cut["message"]["content"], cut["finish_reason"]) == (OSLO[:30], "length")
        late = await answer(served, OPENAI, "two", max_tokens=len(OSLO) + 4)
        assert (late["message"]["content"], late["finish_reason"]) == ("<to", "length")
        assert len(late["message"]["tool_calls"]) == 1

    run(tmp_path, scenario)


COLD = '{"answer": "cold"}'
FITS: list[tuple[dict[str, Any], list[str], list[str]]] = [
    ({"tool_choice": "required"}, [OSLO, NOW, OSLO + NOW], ["", "It is cold.", COLD]),
    ({"tool_choice": "required", "parallel_tool_calls": False}, [OSLO, NOW], ["", OSLO + NOW]),
    ({"tool_choice": {"type": "function", "function": {"name": "get_time"}}}, [NOW], [OSLO, NOW + NOW]),
    ({"response_format": {"type": "json_object"}}, [COLD, OSLO, OSLO + NOW], ["", "It is cold.", COLD + OSLO]),
    ({"response_format": {"type": "json_object"}, "tools": []}, [COLD], [OSLO, f"winter</think>{COLD}"]),
    (
        {"tool_choice": "required", "chat_template_kwargs": {"enable_thinking": True}},
        [f"winter\n</think>\n\n{OSLO}", f"</think>{NOW}"],
        [OSLO, "winter</think>cold"],
    ),
    (
        {"response_format": {"type": "json_object"}, "reasoning_effort": "high", "tools": None},
        [f"winter\n</think>\n\n{COLD}"],
        [COLD, f"winter</think>{OSLO}"],
    ),
]


@pytest.mark.parametrize(("fields", "fitting", "others"), FITS)
def test_choices_constrain(tmp_path: Path, fields: dict[str, Any], fitting: list[str], others: list[str]) -> None:
    async def scenario(served: Served) -> None:
        await answer(served, OPENAI, "nothing", **fields)
        constraint = served.model.asked[-1].constraint
        assert constraint is not None
        with open_gguf(served.model.path) as gguf:
            masks = Masks(tokenizer_from_gguf(gguf))
        assert [masks.fits(constraint, text) for text in fitting] == [True] * len(fitting)
        assert [masks.fits(constraint, text) for text in others] == [False] * len(others)

    run(tmp_path, scenario)


def test_no_constraint_unasked(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for path in (OPENAI, OLLAMA):
            await answer(served, path, "nothing")
            assert served.model.asked[-1].constraint is None
        await answer(served, OLLAMA, "nothing", format="json")
        assert served.model.asked[-1].constraint is not None

    run(tmp_path, scenario)


def test_one_call_at_most(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = {"messages": user("two"), "tools": [WEATHER, TIME], "parallel_tool_calls": False}
        whole = (await served.post(OPENAI, **body)).json()
        choice = whole["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("", "tool_calls")
        assert bare(choice["message"]["tool_calls"]) == [("get_weather", '{"city": "Oslo"}')]
        assert whole["usage"]["completion_tokens"] == len(OSLO)
        events = sse_events((await served.post(OPENAI, **body, stream=True)).text)[:-1]
        deltas = [event["choices"][0]["delta"] for event in events]
        assert [bare(delta["tool_calls"]) for delta in deltas if "tool_calls" in delta] == [
            bare(choice["message"]["tool_calls"])
        ]
        assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"
        assert events[-1]["timings"]["predicted_n"] == len(OSLO)
        several = (await served.post(OPENAI, **body, n=2)).json()["choices"]
        assert [bare(choice["message"]["tool_calls"]) for choice in several] == [
            bare(choice["message"]["tool_calls"])
        ] * 2

    run(tmp_path, scenario)


def test_tools_reach_the_template_in_one_shape(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        typeless = {"function": {**WEATHER["function"], "strict": True}, "x": 1}
        nullish = {"type": "function", "function": {"name": "get_time", "description": None, "parameters": None}}
        for path in (OPENAI, OLLAMA):
            for tools in ([WEATHER, TIME], [typeless, nullish]):
                await answer(served, path, "nothing", tools=tools)
        prompts = [served.text(asked) for asked in served.model.asked]
        assert len(set(prompts)) == 1
        shown = [json.loads(line) for line in prompts[0].split("\n")[1:3]]
        nothing = {"name": "get_time", "description": "", "parameters": {"type": "object", "properties": {}}}
        assert shown == [WEATHER, {"type": "function", "function": nothing}]

    run(tmp_path, scenario)


def test_no_tools_no_calls(tmp_path: Path) -> None:
    """Without tools, or with `tool_choice` none, the model is told of none and its text is text."""

    async def scenario(served: Served) -> None:
        for body in ({"tools": None}, {"tools": []}, {"tool_choice": "none"}):
            choice = await answer(served, OPENAI, "one", **body)
            assert (choice["message"]["content"], choice["finish_reason"]) == (OSLO, "stop")
        assert all("get_weather" not in served.text(asked) for asked in served.model.asked)
        for body in ({"tool_choice": "auto"}, {"tool_choice": None}, {"parallel_tool_calls": True}):
            assert (await answer(served, OPENAI, "one", **body))["finish_reason"] == "tool_calls"

    run(tmp_path, scenario)


def test_results_come_back(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        asked = [*user("two"), (await answer(served, OPENAI, "two"))["message"]]
        first, second = (call["id"] for call in asked[1]["tool_calls"])
        results = [
            {"role": "tool", "tool_call_id": second, "content": "noon"},
            {"role": "tool", "tool_call_id": first, "content": [{"type": "text", "text": "cold"}]},
        ]
        await answer(served, OPENAI, "", messages=asked + results)
        theirs = [*user("two"), (await answer(served, OLLAMA, "two"))["message"]]
        results = [
            {"role": "tool", "tool_name": "get_time", "content": "noon"},
            {"role": "tool", "tool_name": "get_weather", "content": "cold"},
        ]
        await answer(served, OLLAMA, "", messages=theirs + results)
        prompts = [text for asked in served.model.asked if "<|im_start|>tool" in (text := served.text(asked))]
        assert len(prompts) == 2
        assert len(set(prompts)) == 1
        turn = "<|im_start|>tool\ncold<|im_end|>\n<|im_start|>tool\nnoon<|im_end|>\n"
        assert f"<|im_start|>assistant\n{OSLO}{NOW}<|im_end|>\n{turn}" in prompts[0]

    run(tmp_path, scenario)


TOOL = WEATHER["function"]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"tools": {}}, "tools"),
    ({"tools": ["x"]}, "tools[0]"),
    ({"tools": [WEATHER, {"type": "web_search"}]}, "tools[1].type"),
    ({"tools": [{"type": "function"}]}, "tools[0].function"),
    ({"tools": [{"function": {}}]}, "tools[0].function.name"),
    ({"tools": [{"function": {"name": ""}}]}, "tools[0].function.name"),
    ({"tools": [{"function": {"name": "a b"}}]}, "tools[0].function.name"),
    ({"tools": [{"function": {"name": "a" * 257}}]}, "tools[0].function.name"),
    ({"tools": [{"function": {**TOOL, "description": 7}}]}, "tools[0].function.description"),
    ({"tools": [{"function": {**TOOL, "parameters": []}}]}, "tools[0].function.parameters"),
    ({"tools": [WEATHER, WEATHER]}, "tools[1].function.name"),
]
CHOICES: list[tuple[dict[str, Any], str]] = [
    ({"tool_choice": "any"}, "tool_choice"),
    ({"tool_choice": {}}, "tool_choice.type"),
    ({"tool_choice": {"type": "custom"}}, "tool_choice.type"),
    ({"tool_choice": {"type": "function"}}, "tool_choice"),
    ({"tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice"),
    ({"tool_choice": {"type": "function", "function": {"name": 7}}}, "tool_choice.function.name"),
    ({"tool_choice": "required", "tools": [{"function": {"name": "f", "parameters": {"not": {}}}}]}, "tools"),
    ({"tool_choice": "required", "response_format": {"type": "json_object"}}, "response_format"),
    ({"tool_choice": 7}, "tool_choice"),
    ({"tool_choice": "required", "tools": []}, "tool_choice"),
    ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
    ({"messages": [*user("x"), {"role": "tool", "tool_call_id": "a", "content": ""}]}, "messages[1].tool_call_id"),
]


def test_refusals(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for body, param in REFUSED + CHOICES:
            response = await served.post(OPENAI, **{"messages": user("x"), "tools": [WEATHER], **body})
            assert response.status_code == 400, body
            assert response.json()["error"]["param"] == param, response.text
        for body, param in REFUSED:
            response = await served.post(OLLAMA, **{"model": "scripted", "messages": user("x"), **body})
            assert response.status_code == 400, body
            assert param in response.json()["error"]
        assert served.model.asked == []
        await answer(served, OPENAI, "nothing")

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{% for message in messages %}{{ message.content }}{% endfor %}", "knows no tools"),
        ("{{ tools }}{% for message in messages %}{{ message.content }}{% endfor %}", "in no way that is read here"),
    ],
)
def test_models_that_cannot(tmp_path: Path, template: str, why: str) -> None:
    async def scenario(served: Served) -> None:
        for path in (OPENAI, OLLAMA):
            response = await served.post(path, model="scripted", messages=user("x"), tools=[WEATHER])
            assert response.status_code == 400
            assert '"scripted" does not support tools' in response.text.replace('\\"', '"')
            assert why in response.text
        assert served.model.asked == []

    run(tmp_path, scenario, template)


def test_log_probabilities_of_calls_are_those_of_the_text_drawn(tmp_path: Path) -> None:
    """Streamed and not, markers included: the text of a call leaves with the call."""

    async def scenario(served: Served) -> None:
        for word in ("one", "prose", "two", "broken", "open"):
            body = {"messages": user(word), "tools": [WEATHER], "logprobs": True, "top_logprobs": 0}
            whole = (await served.post("/v1/chat/completions", **body)).json()["choices"][0]
            events = sse_events((await served.post("/v1/chat/completions", **body, stream=True)).text)[:-1]
            choices = [choice for event in events for choice in event["choices"]]
            streamed = [entry for choice in choices if choice["logprobs"] for entry in choice["logprobs"]["content"]]
            assert streamed == whole["logprobs"]["content"]
            raw = b"".join(SCRIPTS[word].pieces).decode()
            assert "".join(entry["token"] for entry in streamed) == raw

    run(tmp_path, scenario)
