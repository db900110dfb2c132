"""`/v1/messages`: content blocks in, blocks and named events out, and what it refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from golem_host.errors import RequestError
from golem_host.http.fields import Fields
from golem_host_chat.formats.base import Call
from golem_host_chat.routes.anthropic_blocks import Conversation
from golem_host_chat.routes.anthropic_output import Blocks
from golem_host_chat.routes.anthropic_request import translate
from golem_host_chat.routes.reading import Piece
from named_events import named_events
from scripted_chat import Script, ScriptedRuntime, Served, serving

PATH = "/v1/messages"
USER = [{"role": "user", "content": "Hi"}]
SCRIPTS = {
    "plain": Script(),
    "silent": Script(()),
    "bytes": Script(tuple(bytes([byte]) for byte in "a\U0001f600\u2028b".encode())),
    "failing": Script((b"a", b"b"), error=RequestError("broken")),
}


def rebuilt(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks that a client makes of the events between the start and the end of a message."""
    blocks: list[dict[str, Any]] = []
    opened = None
    for event in events:
        if event["type"] == "content_block_start":
            assert opened is None and event["index"] == len(blocks)
            opened = event["index"]
            blocks.append(dict(event["content_block"]))
            continue
        assert event["index"] == opened
        if event["type"] == "content_block_stop":
            opened = None
            continue
        kind, delta = event["delta"]["type"], event["delta"]
        if kind == "input_json_delta":
            assert blocks[-1]["input"] == {}
            blocks[-1]["input"] = delta["partial_json"]
        else:
            blocks[-1][kind.removesuffix("_delta")] += delta[kind.removesuffix("_delta")]
    assert opened is None
    return blocks


def test_blocks_in_the_order_they_were_written() -> None:
    calls = Call("f", '{"a":1}', id="call_1"), Call("g", "{}", id="call_2")
    pieces = [
        Piece(reasoning="Let "),
        Piece(reasoning="me see."),
        Piece(content="One "),
        Piece(content="moment."),
        Piece(calls=calls),
        Piece(reasoning="\n"),
        Piece(content="Done"),
    ]
    made = Blocks(shows_thinking=True)
    events = [event for piece in pieces for event in made.take(piece)] + list(made.end())
    assert made.blocks == [
        {"type": "thinking", "thinking": "Let me see.", "signature": ""},
        {"type": "text", "text": "One moment."},
        {"type": "tool_use", "id": "call_1", "name": "f", "input": {"a": 1}},
        {"type": "tool_use", "id": "call_2", "name": "g", "input": {}},
        {"type": "text", "text": "Done"},
    ]
    seen = rebuilt(events)
    assert [block.pop("input") for block in seen if "input" in block] == [call.arguments for call in calls]
    assert seen == [{name: value for name, value in block.items() if name != "input"} for block in made.blocks]
    hidden = Blocks(shows_thinking=False)
    for piece in pieces:
        list(hidden.take(piece))
    assert hidden.blocks == made.blocks[1:]


def test_turns_of_blocks_are_chat_messages() -> None:
    made = Conversation(
        Fields(
            {
                "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
                "messages": [
                    {"role": "user", "content": "Hi"},
                    {"role": "user", "content": [{"type": "text", "text": "there"}]},
                    {
                        "role": "assistant",
                        "content": [
                            {"type": "thinking", "thinking": "Hm", "signature": ""},
                            {"type": "text", "text": "Wait"},
                            {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": "ä"}},
                            {"type": "tool_use", "id": "c2", "name": "g", "input": {}},
                        ],
                    },
                    {
                        "role": "user",
                        "content": [
                            {"type": "tool_result", "tool_use_id": "c2", "content": "2"},
                            {"type": "tool_result", "tool_use_id": "c1"},
                            {"type": "text", "text": "So?"},
                        ],
                    },
                ],
            }
        )
    )
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": "ä"}'}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]
    assert made.messages == [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "there"}]},
        {
            "role": "assistant",
            "reasoning_content": "Hm",
            "content": [{"type": "text", "text": "Wait"}],
            "tool_calls": calls,
        },
        {"role": "tool", "tool_call_id": "c2", "content": "2"},
        {"role": "tool", "tool_call_id": "c1", "content": ""},
        {"role": "user", "content": [{"type": "text", "text": "So?"}]},
    ]


def test_fields_as_those_of_a_chat_request() -> None:
    tool = {"name": "f", "description": "d", "input_schema": {"type": "object"}}
    body = translate(
        Fields(
            {
                "messages": USER,
                "max_tokens": 5,
                "stop_sequences": ["x"],
                "top_k": 3,
                "tools": [tool],
                "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
                "thinking": {"type": "enabled", "budget_tokens": 1024},
                "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
                "metadata": {"user_id": "me"},
            }
        )
    ).body
    assert (body["max_tokens"], body["stop"], body["top_k"]) == (5, ["x"], 3)
    assert body["tools"] == [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
    ]
    assert (body["tool_choice"], body["parallel_tool_calls"]) == ("required", False)
    assert (body["chat_template_kwargs"], body["reasoning_effort"]) == ({"enable_thinking": True}, "low")
    assert body["reasoning_budget_tokens"] == 1024
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}
    off = translate(Fields({"messages": USER, "thinking": {"type": "disabled"}, "output_config": {"effort": "low"}}))
    assert off.body["chat_template_kwargs"] == {"enable_thinking": False}
    assert "reasoning_effort" not in off.body
    named = translate(Fields({"messages": USER, "tools": [tool], "tool_choice": {"type": "tool", "name": "f"}}))
    assert named.body["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert named.body["parallel_tool_calls"] is None


async def both(served: Served, word: str, **body: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The message in one piece, and the events of the same one streamed."""
    body = {"model": "scripted", "max_tokens": 64, "messages": [{"role": "user", "content": word}], **body}
    whole = await served.post(PATH, **body)
    assert whole.status_code == 200, whole.text
    streamed = await served.post(PATH, **body, stream=True)
    assert streamed.status_code == 200, streamed.text
    assert streamed.headers["content-type"] == "text/event-stream"
    assert streamed.content.isascii()
    return whole.json(), named_events(streamed.text)


def test_streams_equal_whole_messages(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, scripts=SCRIPTS) as served:
            for word in ("plain", "silent", "bytes"):
                for more, reason in (
                    ({}, "end_turn"),
                    ({"max_tokens": 1}, "max_tokens"),
                    ({"stop_sequences": [" there"]}, "stop_sequence"),
                ):
                    whole, events = await both(served, word, **more)
                    start, *between, delta, stop = events
                    assert (start["type"], delta["type"], stop) == (
                        "message_start",
                        "message_delta",
                        {"type": "message_stop"},
                    )
                    assert rebuilt(between) == whole["content"]
                    assert {**start["message"], **delta["delta"], "usage": delta["usage"], "content": []} == {
                        **whole,
                        "id": start["message"]["id"],
                        "content": [],
                    }
                    assert start["message"]["usage"]["input_tokens"] == whole["usage"]["input_tokens"]
                    if word == "plain":
                        assert whole["stop_reason"] == reason
                        assert whole["stop_sequence"] == (" there" if reason == "stop_sequence" else None)

    asyncio.run(scenario())


def test_an_error_after_text_is_the_last_event(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, scripts=SCRIPTS) as served:
            failing = [{"role": "user", "content": "failing"}]
            events = named_events((await served.post(PATH, messages=failing, stream=True)).text)
            whole = await served.post(PATH, messages=failing)
            assert (await served.post(PATH, messages=USER)).status_code == 200
        assert events[-1] == {"type": "error", "error": {"type": "api_error", "message": "broken"}}
        assert (whole.status_code, whole.json()) == (500, events[-1])

    asyncio.run(scenario())


def test_tokens_are_counted_without_an_answer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            counted = await served.post(f"{PATH}/count_tokens", messages=USER, system="Be brief")
            assert served.model.asked == []
            await served.post(PATH, messages=USER, system="Be brief")
            assert counted.json() == {"input_tokens": len(served.model.asked[0].prompt)}

    asyncio.run(scenario())


def test_an_assistant_message_at_the_end_is_continued(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            await served.post(PATH, messages=[*USER, {"role": "assistant", "content": "The best is ("}])
            tokenizer = ScriptedRuntime(served.model).tokenizer
            assert tokenizer.decode(served.model.asked[0].prompt).endswith(b"The best is (")

    asyncio.run(scenario())


def test_keys_of_both_kinds(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, settings={"api-key": "secret"}) as served:
            statuses = {}
            for name, value in (("x-api-key", "secret"), ("authorization", "Bearer secret"), ("x-api-key", "other")):
                response = await served.client.post(PATH, json={"messages": USER}, headers={name: value})
                statuses[name, value] = response.status_code
            assert list(statuses.values()) == [200, 200, 401]
            assert response.json() == {
                "type": "error",
                "error": {"type": "authentication_error", "message": "Invalid API Key"},
            }

    asyncio.run(scenario())


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "'messages' is required"),
    ({"messages": []}, "'messages'"),
    ({"messages": ["x"]}, "'messages[0]'"),
    ({"messages": [{"content": "x"}]}, "'messages[0].role'"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "'messages[0].role'"),
    ({"messages": [{"role": "user"}]}, "'messages[0].content'"),
    ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "'messages[0].content[0].type'"),
    ({"messages": [{"role": "user", "content": [{"type": "thinking"}]}]}, "'messages[0].content[0].type'"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "'messages[0].content[0].text'"),
    ({"messages": [{"role": "assistant", "content": [{"type": "tool_use"}]}]}, "'messages[0].content[0].name'"),
    ({"messages": USER, "system": [{"type": "image"}]}, "'system[0].type'"),
    ({"messages": USER, "max_tokens": -2}, "'max_tokens'"),
    ({"messages": USER, "stop_sequences": "x"}, "'stop_sequences'"),
    ({"messages": USER, "stop_sequences": [1]}, "'stop_sequences'"),
    ({"messages": USER, "tools": [{"type": "web_search_20250305", "name": "w"}]}, "'tools[0].type'"),
    ({"messages": USER, "tools": [{"name": "w"}]}, "'tools[0].input_schema'"),
    ({"messages": USER, "tool_choice": {"type": "some"}}, "'tool_choice.type'"),
    ({"messages": USER, "tool_choice": {"type": "tool"}}, "'tool_choice.name'"),
    ({"messages": USER, "thinking": {"type": "between_tools"}}, "'thinking.type'"),
    ({"messages": USER, "thinking": {"type": "adaptive", "display": "full"}}, "'thinking.display'"),
    ({"messages": USER, "output_config": {"format": {"type": "xml"}}}, "'output_config.format.type'"),
    (
        {"messages": USER, "output_config": {"format": {"type": "json_schema", "schema": {"pattern": "(a"}}}},
        "'output_config.format'",
    ),
    ({"messages": USER, "mcp_servers": [{}]}, "'mcp_servers'"),
]


def test_refusals_name_what_the_caller_wrote(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            for body, named in REFUSED:
                response = await served.post(PATH, **body)
                assert response.status_code == 400, (body, response.text)
                assert response.json()["error"]["type"] == "invalid_request_error"
                assert named in response.json()["error"]["message"], body
            assert served.model.asked == []

    asyncio.run(scenario())
