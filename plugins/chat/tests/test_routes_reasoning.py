"""Reasoning apart from content, on every chat route, whole and streamed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from golem_host_chat.routes import openai_control
from golem_host_chat.thought_budget import ThoughtEnd
from scripted_chat import Script, Served, json_lines, serving, sse_events
from tool_template import TOOL_TEMPLATE, WEATHER

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def drawn(text: str) -> Script:
    return Script(tuple(character.encode() for character in text))


SCRIPTS = {
    "thinks": drawn("It is\n winter.\n</think>\n\nCold.\n"),
    "endless": drawn("It is winter \n"),
    "silent": drawn("\n</think>\n\nCold."),
    "unasked": drawn("<think>\nwinter\n</think>\n\nCold."),
    "empty": drawn("<think>\n\n</think>\n\nCold."),
    "goes on": drawn(" and so on.\n</think>\n\nCold."),
    "calls": drawn(f"winter\n</think>\n\n{CALL}"),
}
ON = {"chat_template_kwargs": {"enable_thinking": True}}


def run(folder: Path, scenario: Callable[[Served], Awaitable[None]]) -> None:
    async def whole() -> None:
        metadata = {"tokenizer.chat_template": TOOL_TEMPLATE}
        async with serving(folder, scripts=SCRIPTS, context=4096, metadata=metadata) as served:
            await scenario(served)

    asyncio.run(whole())


async def openai(served: Served, word: str, **body: Any) -> tuple[str | None, str, str]:
    """Reasoning, content and finish reason, the same whole and streamed."""
    body = {"messages": [{"role": "user", "content": word}], **body}
    choice = (await served.post("/v1/chat/completions", **body)).json()["choices"][0]
    message = choice["message"]
    found = (message.get("reasoning_content"), message["content"], choice["finish_reason"])
    events = sse_events((await served.post("/v1/chat/completions", **body, stream=True)).text)[:-1]
    choices = [event["choices"][0] for event in events]
    deltas = [choice["delta"] for choice in choices]
    reasoning = "".join(delta.get("reasoning_content", "") for delta in deltas)
    assert (reasoning or None, "".join(delta.get("content", "") for delta in deltas)) == found[:2]
    assert choices[-1]["finish_reason"] == found[2]
    both = any(delta.get("content") and delta.get("reasoning_content") for delta in deltas)
    assert both == (body.get("reasoning_format") == "deepseek-legacy")
    return found


async def ollama(served: Served, word: str, **body: Any) -> tuple[str | None, str]:
    """Thinking and content, the same on both routes, whole and streamed."""
    chat = {"model": "scripted", "messages": [{"role": "user", "content": word}], **body}
    message = (await served.post("/api/chat", **chat, stream=False)).json()["message"]
    found = (message.get("thinking"), message["content"])
    lines = [line["message"] for line in json_lines((await served.post("/api/chat", **chat)).text)]
    thinking = "".join(line.get("thinking", "") for line in lines)
    assert (thinking or None, "".join(line["content"] for line in lines)) == found
    generate = {"model": "scripted", "prompt": word, **body}
    whole = (await served.post("/api/generate", **generate, stream=False)).json()
    assert (whole.get("thinking"), whole["response"]) == found
    lines = json_lines((await served.post("/api/generate", **generate)).text)
    thinking = "".join(line.get("thinking", "") for line in lines)
    assert (thinking or None, "".join(line["response"] for line in lines)) == found
    return found


@pytest.mark.parametrize(
    ("word", "on", "reasoning", "content"),
    [
        ("thinks", True, "It is\n winter.", "Cold.\n"),
        ("endless", True, "It is winter", ""),
        ("silent", True, None, "Cold."),
        ("unasked", False, "winter", "Cold."),
        ("empty", False, None, "Cold."),
    ],
)
def test_reasoning_is_kept_apart(tmp_path: Path, word: str, on: bool, reasoning: str | None, content: str) -> None:
    async def scenario(served: Served) -> None:
        assert await openai(served, word, **(ON if on else {})) == (reasoning, content, "stop")
        assert await ollama(served, word, think=on) == (reasoning, content)

    run(tmp_path, scenario)


def test_reasoning_before_calls(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        assert await openai(served, "calls", tools=[WEATHER], **ON) == ("winter", "", "tool_calls")
        assert await openai(served, "thinks", tools=[WEATHER], **ON, max_tokens=8) == ("It is\n w", "", "length")

    run(tmp_path, scenario)


def test_reasoning_format(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for name in ("auto", "deepseek", None):
            found = await openai(served, "unasked", reasoning_format=name)
            assert found == ("winter", "Cold.", "stop")
        text = b"".join(SCRIPTS["unasked"].pieces).decode()
        assert await openai(served, "unasked", reasoning_format="none") == (None, text, "stop")
        found = await openai(served, "unasked", reasoning_format="deepseek-legacy")
        assert found == ("winter", "<think>winter</think>Cold.", "stop")
        found = await openai(served, "thinks", reasoning_format="deepseek-legacy", **ON)
        assert found == ("It is\n winter.", "<think>It is\n winter.</think>Cold.\n", "stop")
        for name in ("x", 7):
            response = await served.post(
                "/v1/chat/completions", messages=[{"role": "user", "content": "x"}], reasoning_format=name
            )
            assert response.status_code == 400
            assert response.json()["error"]["param"] == "reasoning_format"

    run(tmp_path, scenario)


def test_budget(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for fields, tokens in (
            ({"reasoning_budget_tokens": 5}, 5),
            ({"thinking_budget_tokens": 0}, 0),
            ({"reasoning_budget_tokens": 7, "thinking_budget_tokens": 5}, 7),
            ({"reasoning_budget_tokens": -1}, None),
            ({}, None),
        ):
            await openai(served, "thinks", tools=[WEATHER], **ON, **fields)
            budget = served.model.asked[-1].thoughts
            assert (None if budget is None else budget.tokens) == tokens
            if budget is not None:
                assert budget.opened
                assert budget.openers == ()
                assert served.decoded(budget.closing) == "</think>"
        body = {"messages": [{"role": "user", "content": "x"}], "reasoning_budget_tokens": -2}
        assert (await served.post("/v1/chat/completions", **body)).status_code == 400

    run(tmp_path, scenario)


def test_a_begun_answer_may_end_within_a_thought(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for begun, expected in (
            ("<think>\nI wonder", ("It is\n winter.", "Cold.\n", "stop")),
            ("<think>\nI see</think>", (None, "It is\n winter.\n</think>\n\nCold.\n", "stop")),
        ):
            messages = [{"role": "user", "content": "thinks"}, {"role": "assistant", "content": begun}]
            assert await openai(served, "", messages=messages) == expected

    run(tmp_path, scenario)


def test_an_answer_goes_on_within_its_reasoning_or_after_it(tmp_path: Path) -> None:
    """What the model is given is what it had when it wrote the beginning; what comes is what follows it, blanks too."""
    opening = "<|im_start|>assistant\n<think>\n"

    async def scenario(served: Served) -> None:
        for message, fields, expected, ending in (
            ({"reasoning_content": "It is winter"}, {}, (" and so on.", "Cold.", "stop"), "It is winter"),
            (
                {"reasoning_content": "It is winter", "content": ""},
                {"continue_final_message": "reasoning_content"},
                (" and so on.", "Cold.", "stop"),
                "It is winter",
            ),
            (
                {"reasoning": "It is winter."},
                {"continue_final_message": "content"},
                (None, " and so on.\n</think>\n\nCold.", "stop"),
                "It is winter.\n</think>\n\n",
            ),
            (
                {"reasoning_content": "It is winter.", "content": "It"},
                {},
                (None, " and so on.\n</think>\n\nCold.", "stop"),
                "It is winter.\n</think>\n\nIt",
            ),
        ):
            messages = [{"role": "user", "content": "goes on"}, {"role": "assistant", **message}]
            assert await openai(served, "", messages=messages, **fields) == expected
            assert served.text(served.model.asked[-1]).endswith(opening + ending)
        chat = {"model": "scripted", "stream": False}
        messages = [{"role": "user", "content": "goes on"}, {"role": "assistant", "thinking": "It is winter"}]
        message = (await served.post("/api/chat", **chat, messages=messages)).json()["message"]
        assert (message["thinking"], message["content"]) == (" and so on.", "Cold.")
        for fields in (
            {"chat_template_kwargs": {"enable_thinking": False}},
            {"reasoning_effort": "none"},
            {"continue_final_message": "reasoning_content", "messages": [messages[0], {**messages[1], "content": "x"}]},
        ):
            assert (await served.post("/v1/chat/completions", **{"messages": messages, **fields})).status_code == 400, (
                fields
            )

    run(tmp_path, scenario)


def test_a_running_answer_is_told_to_end_its_thought(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        seen: list[dict[str, Any]] = []
        served.model.before_pass = lambda: seen.append(dict(openai_control._running))
        asked = {"messages": [{"role": "user", "content": "thinks"}], **ON, "stream": True}
        for control in (True, False):
            seen.clear()
            events = sse_events((await served.post("/v1/chat/completions", **asked, reasoning_control=control)).text)
            # the first pass may come before the stream's generator runs
            [id] = seen[-1]
            assert id == events[0]["id"]
            budget = served.model.asked[-1].thoughts
            assert (seen[-1][id] is None) == (not control)
            assert (budget.end if budget else None) is seen[-1][id]
        assert openai_control._running == {}
        end = ThoughtEnd()
        with openai_control.running("chatcmpl-a", end), openai_control.running("chatcmpl-b", None):
            for id, reply in (
                ("chatcmpl-a", {"success": True}),
                ("chatcmpl-b", {"success": False, "message": "reasoning control not enabled for this completion"}),
                ("chatcmpl-c", {"success": False, "message": "no active completion for this id"}),
            ):
                answer = await served.post("/v1/chat/completions/control", id=id, action="reasoning_end")
                assert (answer.status_code, answer.json()) == (200, reply)
        assert end.wanted
        for body, param in (
            ({"action": "reasoning_end"}, "id"),
            ({"id": "chatcmpl-a"}, "action"),
            ({"id": "chatcmpl-a", "action": "stop"}, "action"),
        ):
            answer = await served.post("/v1/chat/completions/control", **body)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)

    run(tmp_path, scenario)


def test_raw_prompts_are_answered_with_plain_text(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = {"model": "scripted", "prompt": "unasked", "raw": True, "stream": False}
        answer = (await served.post("/api/generate", **body)).json()
        assert answer["response"] == b"".join(SCRIPTS["unasked"].pieces).decode()
        assert "thinking" not in answer

    run(tmp_path, scenario)
