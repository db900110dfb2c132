"""openai-python and ollama-python, unmodified, against a real server process with a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ollama
import openai
import pytest

from golem_host.testing.tiny import tiny_gguf
from server_process import Clients, server

HI: Any = [{"role": "user", "content": "Hi"}]
EMOJI: Any = [{"role": "user", "content": "emoji"}]
EMOJI_TEXT = "a\U0001f600\u2028b"


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    folder = tmp_path_factory.mktemp("clients")
    model = tiny_gguf(folder / "tiny.gguf", "llama")
    script = Path(__file__).with_name("scripted_server.py")
    with server(str(script), str(model), "addr=127.0.0.1:0", f"model-folder={folder}", "any-model=false") as found:
        yield found


def test_openai_chat(clients: Clients) -> None:
    answer = clients.openai.chat.completions.create(model="scripted", messages=HI, seed=1, user="me", store=False)
    assert answer.model == "scripted"
    assert answer.choices[0].message.content == "Hello there."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 4
    assert answer.usage.prompt_tokens_details is not None


def test_openai_history_of_its_own_messages(clients: Clients) -> None:
    """What the client dumps (nulls and all) can be sent back."""
    first = clients.openai.chat.completions.create(model="scripted", messages=HI)
    history: Any = [*HI, first.choices[0].message.model_dump(), *EMOJI]
    second = clients.openai.chat.completions.create(model="scripted", messages=history, temperature=None)
    assert second.choices[0].message.content == EMOJI_TEXT


def test_openai_several_choices(clients: Clients) -> None:
    answer = clients.openai.chat.completions.create(model="scripted", messages=HI, n=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]


def test_openai_chat_streamed(clients: Clients) -> None:
    for include_usage in (False, True):
        stream = clients.openai.chat.completions.create(
            model="scripted", messages=EMOJI, stream=True, stream_options={"include_usage": include_usage}
        )
        chunks = list(stream)
        texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
        assert "".join(texts) == EMOJI_TEXT
        assert [bool(chunk.choices) for chunk in chunks].count(False) == include_usage
        assert (chunks[-1].usage is not None) == include_usage


def test_openai_stream_helper(clients: Clients) -> None:
    """It rebuilds the message from the deltas: a role in every chunk would be joined."""
    with clients.openai.chat.completions.stream(model="scripted", messages=HI) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.role == "assistant"
    assert final.choices[0].message.content == "Hello there."
    assert final.choices[0].finish_reason == "stop"


def test_openai_stream_left_early(clients: Clients) -> None:
    messages: Any = [{"role": "user", "content": "endless"}]
    for _ in range(6):  # more often than there are slots
        stream = clients.openai.chat.completions.create(model="scripted", messages=messages, stream=True)
        for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        stream.close()
    answer = clients.openai.chat.completions.create(model="scripted", messages=HI)
    assert answer.choices[0].message.content == "Hello there."


def test_openai_async_clients_at_once(clients: Clients) -> None:
    async def scenario() -> None:
        http = openai.DefaultAsyncHttpxClient(trust_env=False)
        async with openai.AsyncOpenAI(base_url=f"{clients.url}/v1", api_key="x", http_client=http) as client:

            async def one(messages: Any) -> str:
                stream = await client.chat.completions.create(model="scripted", messages=messages, stream=True)
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

            texts = await asyncio.gather(*(one(messages) for messages in (HI, EMOJI) * 8))
        assert texts == ["Hello there.", EMOJI_TEXT] * 8

    asyncio.run(scenario())


def test_openai_completions(clients: Clients) -> None:
    create = clients.openai.completions.create
    answer = create(model="scripted", prompt="The", echo=True, max_tokens=16)
    assert answer.choices[0].text == "TheHello there."
    assert [choice.text for choice in create(model="scripted", prompt=["a", "b"]).choices] == ["Hello there."] * 2
    assert create(model="scripted", prompt=[[1, 2], [3]], n=2).choices[3].index == 3
    chunks = list(create(model="scripted", prompt="The", stream=True, stream_options={"include_usage": True}))
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == "Hello there."
    assert chunks[-1].usage is not None


def test_openai_models(clients: Clients) -> None:
    assert [model.id for model in clients.openai.models.list()] == ["scripted"]
    assert clients.openai.models.retrieve("scripted").id == "scripted"


def test_openai_errors(clients: Clients) -> None:
    create = clients.openai.chat.completions.create
    with pytest.raises(openai.NotFoundError) as missing:
        create(model="other", messages=HI)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as long:
        create(model="scripted", messages=[{"role": "user", "content": "1" * 5000}], stream=True)
    assert long.value.code == "exceed_context_size_error"
    assert isinstance(long.value.body, dict)
    assert long.value.body["n_ctx"] == 4096
    with pytest.raises(openai.BadRequestError) as tools:
        create(model="scripted", messages=HI, tools=[{"type": "function", "function": {"name": "f"}}])
    assert tools.value.param == "tools"
    assert "tools" in tools.value.message


def test_ollama_chat(clients: Clients) -> None:
    answer = clients.ollama.chat("scripted", messages=HI, options={"temperature": 0, "num_ctx": 2048}, keep_alive="5m")
    assert answer.message.content == "Hello there."
    assert answer.done_reason == "stop"
    assert answer.eval_count == 4
    assert answer.total_duration is not None
    assert clients.ollama.chat("scripted", messages=[*HI, answer.message, *EMOJI]).message.content == EMOJI_TEXT


def test_ollama_chat_streamed(clients: Clients) -> None:
    parts = list(clients.ollama.chat("scripted", messages=EMOJI, stream=True))
    assert "".join(part.message.content or "" for part in parts) == EMOJI_TEXT
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]


def test_ollama_generate(clients: Clients) -> None:
    first = clients.ollama.generate("scripted", "Hi", system="Be brief.", think=False)
    assert first.response == "Hello there."
    assert first.context
    second = clients.ollama.generate("scripted", "emoji", context=first.context)
    assert second.response == EMOJI_TEXT
    assert second.prompt_eval_count is not None and first.prompt_eval_count is not None
    assert second.prompt_eval_count > len(first.context)
    assert clients.ollama.generate("scripted", "Hi", raw=True).context is None


def test_ollama_generate_streamed(clients: Clients) -> None:
    parts = list(clients.ollama.generate("scripted", "emoji", stream=True))
    assert "".join(part.response or "" for part in parts) == EMOJI_TEXT
    assert parts[-1].done


def test_ollama_lists(clients: Clients) -> None:
    [model] = clients.ollama.list().models
    assert model.model == "scripted:latest"
    assert model.modified_at is not None
    shown = clients.ollama.show("scripted")
    assert shown.details is not None
    assert shown.details.family == "scripted"


def test_ollama_loads_and_unloads(clients: Clients) -> None:
    assert clients.ollama.generate("scripted", keep_alive=0).done_reason == "unload"
    assert clients.ollama.ps().models == []
    assert clients.ollama.chat("scripted", messages=[], keep_alive=-1).done_reason == "load"
    [loaded] = clients.ollama.ps().models
    assert loaded.model == "scripted:latest"
    assert loaded.expires_at is not None
    assert clients.ollama.generate("scripted", "Hi", keep_alive="5m").response == "Hello there."


def test_ollama_errors(clients: Clients) -> None:
    with pytest.raises(ollama.ResponseError) as missing:
        clients.ollama.chat("other", messages=HI)
    assert (missing.value.status_code, missing.value.error) == (404, "model 'other' not found")
    with pytest.raises(ollama.ResponseError) as thinking:
        clients.ollama.chat("scripted", messages=HI, think=True)
    assert thinking.value.status_code == 400
    with pytest.raises(ollama.ResponseError) as option:
        list(clients.ollama.generate("scripted", "Hi", options={"other": 1}, stream=True))
    assert "other" in option.value.error
