"""`/v1/responses`: items in, items and numbered events out, and what it refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

from golem_host.errors import RequestError
from golem_host.http.fields import Fields
from golem_host_chat.formats.base import Call
from golem_host_chat.routes.reading import Piece
from golem_host_chat.routes.responses_items import Conversation
from golem_host_chat.routes.responses_output import Output
from golem_host_chat.routes.responses_request import translate
from golem_host_chat.routes.token_probabilities import TokenWriter
from named_events import named_events
from scripted_chat import Script, Served, serving

PATH = "/v1/responses"
SCRIPTS = {
    "plain": Script(),
    "silent": Script(()),
    "bytes": Script(tuple(bytes([byte]) for byte in "a\U0001f600\u2028b".encode())),
    "failing": Script((b"a", b"b"), error=RequestError("broken")),
}


def messages(**request: Any) -> list[dict[str, Any]]:
    return Conversation(Fields(request)).messages


def ended(output: Output, *pieces: Piece, complete: bool = True) -> list[dict[str, Any]]:
    """All events of an output of these pieces."""
    events = [event for piece in pieces for event in output.take(piece)]
    return events + list(output.end(complete=complete))


def rebuilt(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items that a client makes of the events, from their deltas alone."""
    items: list[dict[str, Any]] = []
    for event in events:
        kind, index = event["type"], event["output_index"]
        if kind == "response.output_item.added":
            assert index == len(items) and event["item"]["status"] == "in_progress"
            items.append(dict(event["item"]))
        item = items[index]
        if kind != "response.output_item.added" and kind != "response.output_item.done":
            assert event["item_id"] == item["id"]
        if kind == "response.content_part.added":
            assert event["content_index"] == 0 and item["content"] == []
            item["content"] = [dict(event["part"])]
        elif kind in ("response.output_text.delta", "response.reasoning_text.delta"):
            item["content"][0]["text"] += event["delta"]
        elif kind == "response.function_call_arguments.delta":
            item["arguments"] += event["delta"]
        elif kind in ("response.output_text.done", "response.reasoning_text.done"):
            assert event["text"] == item["content"][0]["text"]
        elif kind == "response.content_part.done":
            assert [event["part"]] == item["content"]
        elif kind == "response.function_call_arguments.done":
            assert (event["arguments"], event["name"]) == (item["arguments"], item["name"])
        elif kind == "response.output_item.done":
            item["status"] = event["item"]["status"]
            assert item == event["item"]
    return items


def test_output_items_in_the_order_they_were_written() -> None:
    first, second = Call("f", '{"a":1}', id="call_1"), Call("g", "{}", id="call_2")
    pieces = [
        Piece(reasoning="Let "),
        Piece(reasoning="me see."),
        Piece(content="One "),
        Piece(content="moment."),
        Piece(calls=(first, second)),
        Piece(reasoning="\n"),
        Piece(reasoning="Well."),
        Piece(content="Done"),
    ]
    output = Output(TokenWriter(cast(Any, None), None))
    events = ended(output, *pieces)
    assert rebuilt(events) == output.items
    assert [item["type"] for item in output.items] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
        "reasoning",
        "message",
    ]
    texts = [item["content"][0]["text"] for item in output.items if "content" in item]
    assert texts == ["Let me see.", "One moment.", "Well.", "Done"]
    assert [item["call_id"] for item in output.items[2:4]] == ["call_1", "call_2"]
    assert {item["status"] for item in output.items} == {"completed"}
    assert len({item["id"] for item in output.items}) == len(output.items)


def test_only_an_item_that_was_being_written_is_incomplete() -> None:
    output = Output(TokenWriter(cast(Any, None), None))
    events = ended(output, Piece(reasoning="a"), Piece(content="b"), complete=False)
    assert rebuilt(events) == output.items
    assert [item["status"] for item in output.items] == ["completed", "incomplete"]


def test_a_turn_of_the_model_is_one_message_again() -> None:
    made = messages(
        instructions="Be brief.",
        input=[
            {"role": "developer", "content": "And kind."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Wait"}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call", "call_id": "c2", "name": "g", "arguments": '{"a": 1}'},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "2"}]},
            {"type": "function_call_output", "call_id": "c1", "output": "1"},
            {"role": "assistant", "content": "One and two"},
            {"role": "assistant", "content": "Anything else?"},
        ],
    )
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": '{"a": 1}'}},
    ]
    assert made == [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "And kind."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {
            "role": "assistant",
            "reasoning_content": "Hm",
            "content": [{"type": "text", "text": "Wait"}],
            "tool_calls": calls,
        },
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "2"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {"role": "assistant", "content": "One and two"},
        {"role": "assistant", "content": "Anything else?"},
    ]


def test_fields_as_those_of_a_chat_request() -> None:
    tools = [{"type": "function", "name": name, "parameters": {"type": "object"}, "strict": True} for name in "fg"]
    body = translate(
        Fields(
            {
                "input": "Hi",
                "max_output_tokens": 5,
                "top_k": 3,
                "tools": tools,
                "tool_choice": {
                    "type": "allowed_tools",
                    "mode": "required",
                    "tools": [{"type": "function", "name": "g"}],
                },
                "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}},
                "include": ["message.output_text.logprobs"],
            }
        )
    ).body
    assert (body["max_tokens"], body["top_k"], body["logprobs"], body["top_logprobs"]) == (5, 3, True, 0)
    assert [tool["function"] for tool in body["tools"]] == [
        {"name": "g", "parameters": {"type": "object"}, "strict": True}
    ]
    assert body["tool_choice"] == "required"
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
    }
    named = translate(Fields({"input": "Hi", "tools": tools, "tool_choice": {"type": "function", "name": "f"}})).body
    assert named["tool_choice"] == {"type": "function", "function": {"name": "f"}}


async def both(served: Served, **body: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The response in one piece, and the events of the same one streamed."""
    whole = await served.post(PATH, **body)
    assert whole.status_code == 200, whole.text
    streamed = await served.post(PATH, **body, stream=True)
    assert streamed.status_code == 200, streamed.text
    assert streamed.headers["content-type"] == "text/event-stream"
    assert streamed.content.isascii()
    return whole.json(), named_events(streamed.text)


def without_ids(response: dict[str, Any]) -> dict[str, Any]:
    """What two responses to one request share."""
    kept = {name: value for name, value in response.items() if name not in ("id", "created_at", "completed_at")}
    return {**kept, "output": [{**item, "id": ""} for item in response["output"]]}


def test_streams_equal_whole_responses(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, name="served", scripts=SCRIPTS) as served:
            for word in ("plain", "silent", "bytes"):
                for more in ({}, {"max_output_tokens": 2}, {"stop": ["there"], "max_output_tokens": 9}):
                    whole, events = await both(served, input=word, **more)
                    assert [event["sequence_number"] for event in events] == list(range(len(events)))
                    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
                    last = events[-1]["response"]
                    assert events[-1]["type"] == f"response.{whole['status']}"
                    assert without_ids(last) == without_ids(whole)
                    assert rebuilt(events[2:-1]) == last["output"]
                    assert {event["response"]["id"] for event in events if "response" in event} == {last["id"]}
                    cut = "max_output_tokens" in more and whole["usage"]["output_tokens"] == more["max_output_tokens"]
                    assert whole["status"] == ("incomplete" if cut else "completed"), (word, more)
                    assert (whole["incomplete_details"] == {"reason": "max_output_tokens"}) == cut
                    assert whole["model"] == "served"

    asyncio.run(scenario())


def test_usage_counts_the_whole_prompt(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            response = (await served.post(PATH, input="Hi", instructions="Be kind", metadata={"a": "b"})).json()
            prompt = len(served.model.asked[0].prompt)
        assert response["usage"]["input_tokens"] == prompt
        assert response["usage"]["total_tokens"] == prompt + response["usage"]["output_tokens"]
        assert (response["instructions"], response["metadata"], response["store"]) == ("Be kind", {"a": "b"}, False)

    asyncio.run(scenario())


def test_an_error_after_text_is_the_last_event(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, scripts=SCRIPTS) as served:
            events = named_events((await served.post(PATH, input="failing", stream=True)).text)
            whole = await served.post(PATH, input="failing")
            assert (await served.post(PATH, input="x")).status_code == 200
        assert events[-1]["type"] == "error"
        assert (events[-1]["message"], events[-1]["error"]["message"]) == ("broken", "broken")
        assert events[-1]["sequence_number"] == len(events) - 1
        assert (whole.status_code, whole.json()["error"]["message"]) == (500, "broken")

    asyncio.run(scenario())


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "input"),
    ({"input": []}, "input"),
    ({"input": 3}, "input"),
    ({"input": [3]}, "input[0]"),
    ({"input": [{}]}, "input[0].type"),
    ({"input": [{"type": "computer_call"}]}, "input[0].type"),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].type"),
    ({"input": [{"role": "user"}]}, "input[0].content"),
    ({"input": [{"role": "king", "content": "x"}]}, "input[0].role"),
    ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].type"),
    ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input[0].content[0].type"),
    ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
    ({"input": [{"type": "reasoning", "encrypted_content": "x"}]}, "input[0].content"),
    ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id"),
    ({"input": "x", "instructions": 1}, "instructions"),
    ({"input": "x", "max_output_tokens": -1}, "max_output_tokens"),
    ({"input": "x", "tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"input": "x", "tools": [{"type": "function"}]}, "tools[0].name"),
    ({"input": "x", "tool_choice": {"type": "custom", "name": "f"}}, "tool_choice.type"),
    ({"input": "x", "tool_choice": {"type": "allowed_tools", "tools": [{"name": "f"}]}}, "tool_choice.tools"),
    ({"input": "x", "text": {"format": 1}}, "text.format"),
    ({"input": "x", "text": {"format": {"type": "xml"}}}, "text.format.type"),
    ({"input": "x", "text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
    ({"input": "x", "text": {"format": {"type": "json_schema", "schema": {"pattern": "(a"}}}}, "text.format"),
    ({"input": "x", "text": {"format": {"type": "text"}}, "response_format": {}}, "response_format"),
]


def test_refusals_name_what_the_caller_wrote(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            for body, param in REFUSED:
                response = await served.post(PATH, **body)
                assert response.status_code == 400, (body, response.text)
                assert response.json()["error"]["param"] == param, body
            assert served.model.asked == []

    asyncio.run(scenario())


def test_a_prompt_over_the_context_is_a_status(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, context=24) as served:
            response = await served.post("/responses", input="1" * 50, stream=True)
            assert response.status_code == 400
            assert response.json()["error"]["code"] == "exceed_context_size_error"

    asyncio.run(scenario())


def test_tokens_are_counted_without_an_answer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            counted = await served.post(f"{PATH}/input_tokens", input="Hi", instructions="Be brief")
            assert served.model.asked == []
            await served.post(PATH, input="Hi", instructions="Be brief")
            tokens = len(served.model.asked[0].prompt)
            assert counted.json() == {"input_tokens": tokens, "object": "response.input_tokens"}

    asyncio.run(scenario())
