"""openai-python's Responses and the anthropic package, unmodified, against a real server with a scripted model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from pydantic import BaseModel

from golem_host.testing.tiny import tiny_gguf
from server_process import Clients, server
from tool_template import TOOL_TEMPLATE, WEATHER

EMOJI = "a\U0001f600\u2028b"
FUNCTION: Any = {"type": "function", "strict": None, **WEATHER["function"]}
TOOL: Any = {
    "name": "get_weather",
    "description": WEATHER["function"]["description"],
    "input_schema": WEATHER["function"]["parameters"],
}


class Person(BaseModel):
    name: str
    age: int


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    folder = tmp_path_factory.mktemp("clients")
    model = tiny_gguf(folder / "tiny.gguf", "llama", metadata={"tokenizer.chat_template": TOOL_TEMPLATE})
    script = Path(__file__).with_name("scripted_server.py")
    with server(str(script), str(model), "addr=127.0.0.1:0", f"model-folder={folder}", "any-model=false") as found:
        yield found


def test_responses_create(clients: Clients) -> None:
    response = clients.openai.responses.create(
        model="scripted", input="Hi", instructions="Be kind", metadata={"a": "b"}
    )
    assert response.output_text == "Hello there."
    assert (response.status, response.model, response.metadata) == ("completed", "scripted", {"a": "b"})
    assert response.usage is not None and response.usage.output_tokens == 4
    again = clients.openai.responses.create(
        model="scripted",
        input=[
            {"role": "user", "content": "Hi"},
            *response.model_dump()["output"],
            {"role": "user", "content": "emoji"},
        ],
    )
    assert again.output_text == EMOJI


def test_responses_streamed(clients: Clients) -> None:
    events = list(clients.openai.responses.create(model="scripted", input="emoji", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == EMOJI
    last = events[-1]
    assert last.type == "response.completed" and last.response.output_text == EMOJI


def test_responses_stream_helper(clients: Clients) -> None:
    with clients.openai.responses.stream(model="scripted", input="emoji") as stream:
        texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(texts) == final.output_text == EMOJI


def test_responses_parsed(clients: Clients) -> None:
    ada = Person(name="Ada", age=36)
    assert clients.openai.responses.parse(model="scripted", input="person", text_format=Person).output_parsed == ada
    with clients.openai.responses.stream(model="scripted", input="person", text_format=Person) as stream:
        assert stream.get_final_response().output_parsed == ada


def test_responses_cut_short(clients: Clients) -> None:
    response = clients.openai.responses.create(model="scripted", input="endless", max_output_tokens=3)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None and response.incomplete_details.reason == "max_output_tokens"
    *_, last = clients.openai.responses.create(model="scripted", input="endless", max_output_tokens=3, stream=True)
    assert last.type == "response.incomplete" and last.response.output_text == response.output_text


def test_responses_tools_and_reasoning(clients: Clients) -> None:
    """What comes back is sent back as it is, with the result of the call."""
    asked: Any = {"model": "scripted", "tools": [FUNCTION], "reasoning": {"effort": "low"}}
    question: Any = {"role": "user", "content": "calling"}
    whole = clients.openai.responses.create(input=[question], **asked)
    with clients.openai.responses.stream(input=[question], **asked) as stream:
        reasoning = "".join(event.delta for event in stream if event.type == "response.reasoning_text.delta")
        final = stream.get_final_response()
    assert reasoning == "winter"
    for response in (whole, final):
        thought, message, call = response.output
        assert (thought.type, message.type, call.type) == ("reasoning", "message", "function_call")
        assert call.type == "function_call" and (call.name, call.arguments) == ("get_weather", '{"city": "Oslo"}')
        assert response.output_text == "I look."
        assert response.usage is not None and response.usage.output_tokens_details.reasoning_tokens > 0
        result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "cold"}
        history: Any = [question, *response.output, result]
        assert clients.openai.responses.create(input=history, **{**asked, "reasoning": None}).status == "completed"
        history.append({**result, "call_id": "other"})
        with pytest.raises(openai.BadRequestError) as unknown:
            clients.openai.responses.create(input=history, **asked)
        assert unknown.value.param == "input[5].call_id"


def test_responses_errors(clients: Clients) -> None:
    with pytest.raises(openai.BadRequestError) as kept:
        clients.openai.responses.create(model="scripted", input="Hi", previous_response_id="resp_1")
    assert kept.value.param == "previous_response_id"
    with pytest.raises(openai.NotFoundError):
        clients.openai.responses.create(model="other", input="Hi")
    with pytest.raises(openai.APIError, match="broken"):
        list(clients.openai.responses.create(model="scripted", input="failing", stream=True))


def test_messages_create(clients: Clients) -> None:
    hi: Any = {"role": "user", "content": "Hi"}
    message = clients.anthropic.messages.create(model="scripted", max_tokens=64, system="Be kind", messages=[hi])
    assert [block.text for block in message.content if block.type == "text"] == ["Hello there."]
    assert (message.stop_reason, message.model, message.usage.output_tokens) == ("end_turn", "scripted", 4)
    emoji: Any = {"role": "user", "content": [{"type": "text", "text": "emoji"}]}
    again = clients.anthropic.messages.create(
        model="scripted", max_tokens=64, messages=[hi, message.to_param(), emoji], stop_sequences=["b"]
    )
    assert [block.text for block in again.content if block.type == "text"] == [EMOJI[:-1]]
    assert (again.stop_reason, again.stop_sequence) == ("stop_sequence", "b")
    counted = clients.anthropic.messages.count_tokens(model="scripted", system="Be kind", messages=[hi])
    assert counted.input_tokens == message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0)


def test_messages_streamed(clients: Clients) -> None:
    emoji: Any = [{"role": "user", "content": "emoji"}]
    with clients.anthropic.messages.stream(model="scripted", max_tokens=64, messages=emoji) as stream:
        texts = list(stream.text_stream)
        final = stream.get_final_message()
    assert "".join(texts) == EMOJI == "".join(block.text for block in final.content if block.type == "text")
    whole = clients.anthropic.messages.create(model="scripted", max_tokens=64, messages=emoji)
    assert (final.usage.output_tokens, final.stop_reason) == (whole.usage.output_tokens, whole.stop_reason)
    events = list(clients.anthropic.messages.create(model="scripted", max_tokens=2, messages=emoji, stream=True))
    [delta] = [event for event in events if event.type == "message_delta"]
    assert delta.delta.stop_reason == "max_tokens"


def test_messages_parsed(clients: Clients) -> None:
    person: Any = {"model": "scripted", "max_tokens": 64, "messages": [{"role": "user", "content": "person"}]}
    message = clients.anthropic.messages.parse(**person, output_format=Person)
    assert message.parsed_output == Person(name="Ada", age=36)


def test_messages_tools_and_thinking(clients: Clients) -> None:
    """What comes back is sent back as it is, with the result of the call."""
    asked: Any = {"model": "scripted", "max_tokens": 256, "tools": [TOOL], "thinking": {"type": "adaptive"}}
    question: Any = {"role": "user", "content": "calling"}
    whole = clients.anthropic.messages.create(messages=[question], **asked)
    with clients.anthropic.messages.stream(messages=[question], **asked) as stream:
        final = stream.get_final_message()
    for message in (whole, final):
        thought, text, call = message.content
        assert thought.type == "thinking" and thought.thinking == "winter"
        assert text.type == "text" and text.text == "I look."
        assert call.type == "tool_use" and (call.name, call.input) == ("get_weather", {"city": "Oslo"})
        assert message.stop_reason == "tool_use"
        result: Any = {"type": "tool_result", "tool_use_id": call.id, "content": "cold"}
        history: Any = [question, message.to_param(), {"role": "user", "content": [result]}]
        again = clients.anthropic.messages.create(messages=history, **{**asked, "thinking": {"type": "disabled"}})
        assert again.stop_reason == "tool_use"
        history[-1]["content"].append({**result, "tool_use_id": "other"})
        with pytest.raises(anthropic.BadRequestError, match=r"messages\[2\].content\[1\].tool_use_id"):
            clients.anthropic.messages.create(messages=history, **asked)


def test_messages_errors(clients: Clients) -> None:
    failing: Any = [{"role": "user", "content": "failing"}]
    with pytest.raises(anthropic.NotFoundError):
        clients.anthropic.messages.create(model="other", max_tokens=1, messages=failing)
    with pytest.raises(anthropic.BadRequestError, match="image"):
        image: Any = [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "x"}}]}]
        clients.anthropic.messages.create(model="scripted", max_tokens=1, messages=image)
    with pytest.raises(anthropic.APIStatusError, match="broken"):
        list(clients.anthropic.messages.create(model="scripted", max_tokens=64, messages=failing, stream=True))
