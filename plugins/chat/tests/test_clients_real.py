"""The real command on a real port with SmolLM2, used through the clients of OpenAI, Anthropic and Ollama."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from server_process import Clients, server

pytestmark = pytest.mark.real

NAME = "smol"
FRANCE: Any = [{"role": "user", "content": "Name the capital of France."}]
CONVERSATIONS: list[Any] = [
    FRANCE,
    [{"role": "user", "content": "Tell me a story about a fox."}],
    [
        {"role": "system", "content": "You are a pirate."},
        {"role": "user", "content": "Who are you?"},
        {"role": "assistant", "content": "Arr!"},
        {"role": "user", "content": "Where is the gold?"},
    ],
    [{"role": "user", "content": "List five colours."}],
]


@pytest.fixture(scope="module")
def clients(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    folder = tmp_path_factory.mktemp("home")
    with server(
        *("-P", "-m", "golem_host", "--enable", "chat", "--chat-model", f"{NAME}={smollm2_path}"),
        *("--addr", "127.0.0.1:0", "--model-folder", str(folder)),
    ) as found:
        yield found


def test_openai_chat(clients: Clients) -> None:
    answer = clients.openai.chat.completions.create(model=NAME, messages=FRANCE, temperature=0, max_tokens=24)
    assert answer.model == NAME
    assert "Paris" in (answer.choices[0].message.content or "")
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 36
    again = clients.openai.chat.completions.create(model=NAME, messages=FRANCE, temperature=0, max_tokens=24)
    assert again.choices[0].message.content == answer.choices[0].message.content
    assert again.usage is not None and again.usage.prompt_tokens_details is not None
    assert again.usage.prompt_tokens_details.cached_tokens == 35


def test_openai_completions(clients: Clients) -> None:
    answer = clients.openai.completions.create(
        model=NAME, prompt="The capital of France is", temperature=0, max_tokens=4
    )
    assert "Paris" in answer.choices[0].text
    assert answer.choices[0].finish_reason == "length"
    parts = clients.openai.completions.create(
        model=NAME, prompt="The capital of France is", temperature=0, max_tokens=4, stream=True
    )
    assert "".join(part.choices[0].text for part in parts) == answer.choices[0].text


def test_openai_models(clients: Clients) -> None:
    assert [model.id for model in clients.openai.models.list()] == [NAME]
    assert clients.openai.models.retrieve(NAME).owned_by


def test_openai_copies_with_a_seed(clients: Clients) -> None:
    """Copy i of a seeded request is the answer to seed + i alone."""

    def texts(seed: int, n: int) -> list[str | None]:
        answer = clients.openai.chat.completions.create(
            model=NAME, messages=CONVERSATIONS[1], seed=seed, n=n, max_tokens=12, temperature=1.2
        )
        return [choice.message.content for choice in answer.choices]

    together = texts(7, 3)
    assert len(set(together)) > 1
    assert together == [text for seed in (7, 8, 9) for text in texts(seed, 1)]


def test_conversations_at_once_equal_those_alone(clients: Clients) -> None:
    """Four conversations in one batch, streamed and not, give the very text each gives alone."""

    def whole(messages: Any) -> str | None:
        answer = clients.openai.chat.completions.create(model=NAME, messages=messages, temperature=0, max_tokens=48)
        return answer.choices[0].message.content

    def streamed(messages: Any) -> str | None:
        chunks = clients.openai.chat.completions.create(
            model=NAME, messages=messages, temperature=0, max_tokens=48, stream=True
        )
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

    alone = [whole(messages) for messages in CONVERSATIONS]
    assert len(set(alone)) == len(alone)
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(whole, CONVERSATIONS)) == alone
        assert list(threads.map(streamed, CONVERSATIONS)) == alone


def test_every_api_gives_the_same_text(clients: Clients) -> None:
    system, *turns = CONVERSATIONS[2]
    openai, anthropic, ollama = clients.openai, clients.anthropic, clients.ollama
    chat: Any = {"model": NAME, "messages": CONVERSATIONS[2], "temperature": 0, "max_tokens": 32}
    whole = openai.chat.completions.create(**chat)
    texts = {"chat": whole.choices[0].message.content}
    chunks = openai.chat.completions.create(**chat, stream=True)
    texts["chat, streamed"] = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    items: Any = {"model": NAME, "instructions": system["content"], "input": turns}
    items |= {"temperature": 0, "max_output_tokens": 32}
    response = openai.responses.create(**items)
    texts["responses"] = response.output_text
    events = openai.responses.create(**items, stream=True)
    texts["responses, streamed"] = "".join(
        event.delta for event in events if event.type == "response.output_text.delta"
    )
    blocks: Any = {"model": NAME, "system": system["content"], "messages": turns, "max_tokens": 32}
    blocks["extra_body"] = {"temperature": 0}  # later clients have no such argument
    message = anthropic.messages.create(**blocks)
    texts["messages"] = "".join(block.text for block in message.content if block.type == "text")
    with anthropic.messages.stream(**blocks) as stream:
        texts["messages, streamed"] = "".join(stream.text_stream)
    options = {"temperature": 0, "num_predict": 32}
    answer = ollama.chat(NAME, messages=CONVERSATIONS[2], options=options)
    texts["ollama"] = answer.message.content
    parts = ollama.chat(NAME, messages=CONVERSATIONS[2], options=options, stream=True)
    texts["ollama, streamed"] = "".join(part.message.content or "" for part in parts)
    with httpx.Client(base_url=clients.url, trust_env=False, timeout=120) as http:
        prompt = http.post("/apply-template", json={"messages": CONVERSATIONS[2]}).json()["prompt"]
        native = http.post("/completion", json={"prompt": prompt, "temperature": 0, "n_predict": 32}).json()
    texts["llama-server"] = native["content"]
    assert texts["chat"]
    assert texts == dict.fromkeys(texts, texts["chat"])
    assert whole.usage is not None and response.usage is not None
    read = whole.usage.prompt_tokens
    assert (response.usage.input_tokens, answer.prompt_eval_count, native["tokens_evaluated"]) == (read, read, read)
    assert message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0) == read
    drawn = whole.usage.completion_tokens
    assert (response.usage.output_tokens, message.usage.output_tokens, answer.eval_count) == (drawn, drawn, drawn)


class City(BaseModel):
    name: str
    founded: int


def test_answers_that_fit_a_schema(clients: Clients) -> None:
    """The same whole answer through three APIs, which the clients themselves check."""
    question = "Name a city and the year it was founded."
    turn: Any = {"role": "user", "content": question}
    chat = clients.openai.chat.completions.parse(
        model=NAME, messages=[turn], response_format=City, temperature=0, max_tokens=64
    )
    response = clients.openai.responses.parse(
        model=NAME, input=question, text_format=City, temperature=0, max_output_tokens=64
    )
    message = clients.anthropic.messages.parse(
        model=NAME, messages=[turn], output_format=City, max_tokens=64, extra_body={"temperature": 0}
    )
    city = chat.choices[0].message.parsed
    assert city is not None
    assert (response.output_parsed, message.parsed_output) == (city, city)


def test_openai_stream_left_early(clients: Clients) -> None:
    for _ in range(6):  # more often than there are slots
        stream = clients.openai.chat.completions.create(model=NAME, messages=CONVERSATIONS[1], stream=True)
        next(stream)
        stream.close()
    answer = clients.openai.chat.completions.create(model=NAME, messages=FRANCE, temperature=0, max_tokens=24)
    assert "Paris" in (answer.choices[0].message.content or "")


def test_ollama_chat(clients: Clients) -> None:
    options = {"temperature": 0, "num_predict": 24}
    answer = clients.ollama.chat(NAME, messages=FRANCE, options=options)
    assert "Paris" in (answer.message.content or "")
    assert answer.prompt_eval_count == 36
    parts = list(clients.ollama.chat(NAME, messages=FRANCE, options=options, stream=True))
    assert "".join(part.message.content or "" for part in parts) == answer.message.content
    assert parts[-1].done_reason == "stop"


def test_ollama_generate(clients: Clients) -> None:
    options = {"temperature": 0, "num_predict": 24}
    answer = clients.ollama.generate(NAME, FRANCE[0]["content"], options=options)
    assert "Paris" in (answer.response or "")
    parts = list(clients.ollama.generate(NAME, FRANCE[0]["content"], options=options, stream=True))
    assert "".join(part.response or "" for part in parts) == answer.response
    assert parts[-1].context == answer.context
    raw = clients.ollama.generate(
        NAME, "The capital of France is", raw=True, options={"temperature": 0, "num_predict": 4}
    )
    assert "Paris" in (raw.response or "")


def test_ollama_lists(clients: Clients) -> None:
    [model] = clients.ollama.list().models
    assert model.model == f"{NAME}:latest"
    shown = clients.ollama.show(NAME)
    assert shown.template and shown.modelinfo
    assert shown.details is not None
    assert shown.details.quantization_level == "Q4_1"


def test_ollama_keep_alive_really_unloads(clients: Clients) -> None:
    assert [model.model for model in clients.ollama.ps().models] == [f"{NAME}:latest"]
    assert clients.ollama.generate(NAME, keep_alive=0).done_reason == "unload"
    assert clients.ollama.ps().models == []
    answer = clients.ollama.chat(NAME, messages=FRANCE, options={"temperature": 0, "num_predict": 24})
    assert "Paris" in (answer.message.content or "")
    assert answer.load_duration is not None and answer.load_duration > 0
    assert len(clients.ollama.ps().models) == 1
