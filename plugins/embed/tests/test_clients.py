"""openai-python and ollama-python, unmodified, against the real command with tiny models."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import ollama
import openai
import pytest

from golem_host.testing.tiny import tiny_gguf
from golem_host.testing.tiny_bert import tiny_bert_directory
from golem_host.testing.tiny_nomic_bert import tiny_nomic_gguf
from server_process import Clients, server

TEXTS = ["the king", "queens and engines", "", "hello, world!", "search query: un" * 3]


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """A chat model, two embedding models and a reranker in one process."""
    folder = tmp_path_factory.mktemp("clients")
    with server(
        *("-P", "-m", "golem_host", "--enable", "chat,embed", "--addr", "127.0.0.1:0", "--model-folder", str(folder)),
        *("--chat-model", f"talker={tiny_gguf(folder / 'tiny.gguf', context=64)}"),
        *("--embed-model", f"bert={tiny_bert_directory(folder / 'bert', max_seq_length=64)}"),
        *("--embed-model", f"nomic={tiny_nomic_gguf(folder / 'nomic.gguf')}"),
        *("--embed-model", f"ranker={tiny_bert_directory(folder / 'ranker', classifier=True)}"),
    ) as found:
        yield found


def rounded(vectors: Any) -> list[list[float]]:
    """What is left of vectors written as numbers or as float32."""
    return np.array(vectors, np.float32).tolist()


@pytest.mark.parametrize("model", ["bert", "nomic"])
def test_openai(clients: Clients, model: str) -> None:
    answer = clients.openai.embeddings.create(model=model, input=TEXTS)  # base64, unless told otherwise
    assert answer.model == model
    assert [item.index for item in answer.data] == list(range(len(TEXTS)))
    vectors = np.array([item.embedding for item in answer.data])
    assert vectors.shape == (len(TEXTS), 64)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-6)
    assert len({vector.tobytes() for vector in vectors}) == len(TEXTS)
    numbers = clients.openai.embeddings.create(model=model, input=TEXTS, encoding_format="float")
    assert rounded([item.embedding for item in numbers.data]) == rounded(vectors)
    assert numbers.usage == answer.usage
    assert answer.usage.prompt_tokens > 2 * len(TEXTS)
    short = clients.openai.embeddings.create(model=model, input=TEXTS[0], dimensions=16).data[0].embedding
    head = vectors[0][:16]
    assert short == pytest.approx(head / np.linalg.norm(head), abs=1e-6)


def test_openai_token_lists(clients: Clients) -> None:
    one = clients.openai.embeddings.create(model="bert", input=[2, 60, 3]).data[0].embedding
    both = clients.openai.embeddings.create(model="bert", input=[[2, 60, 3], [2, 61, 3]])
    spelled = clients.openai.embeddings.create(model="bert", input="hello").data[0].embedding
    assert one == spelled == both.data[0].embedding
    assert both.usage.prompt_tokens == 6


def test_openai_errors(clients: Clients) -> None:
    create = clients.openai.embeddings.create
    with pytest.raises(openai.BadRequestError, match="text 1 of 'input' has 102 tokens") as long:
        create(model="bert", input=["a", "hello " * 100])
    assert long.value.code == "exceed_context_size_error"
    with pytest.raises(openai.BadRequestError, match="more than the 64 that model 'bert' gives"):
        create(model="bert", input="a", dimensions=65)
    with pytest.raises(openai.BadRequestError, match="serves chat, not embed; use /v1/chat/completions or /api/chat"):
        create(model="talker", input="a")
    with pytest.raises(openai.NotFoundError, match="model 'other' not found"):
        create(model="other", input="a")
    with pytest.raises(openai.BadRequestError, match="serves embed, not chat; use /v1/embeddings or /api/embed"):
        clients.openai.chat.completions.create(model="bert", messages=[{"role": "user", "content": "Hi"}])


def test_ollama(clients: Clients) -> None:
    answer = clients.ollama.embed("bert", TEXTS)
    same = clients.openai.embeddings.create(model="bert", input=TEXTS)
    assert rounded(answer.embeddings) == rounded([item.embedding for item in same.data])
    assert answer.prompt_eval_count == same.usage.prompt_tokens
    assert answer.total_duration is not None and answer.total_duration > 0
    assert clients.ollama.embed("bert:latest", "the king", dimensions=8, keep_alive="5m").embeddings[0]
    raw = np.array(clients.ollama.embeddings("bert", "the king").embedding)
    assert raw / np.linalg.norm(raw) == pytest.approx(answer.embeddings[0], abs=1e-6)
    assert abs(np.linalg.norm(raw) - 1) > 0.1
    assert clients.ollama.embed("bert", "hello " * 100, options={"num_ctx": 4096}).prompt_eval_count == 64
    with pytest.raises(ollama.ResponseError, match="the input length exceeds the context length"):
        clients.ollama.embed("bert", "hello " * 100, truncate=False)
    with pytest.raises(ollama.ResponseError, match="model 'talker' serves chat, not embed"):
        clients.ollama.embed("talker", "a")
    with pytest.raises(ollama.ResponseError) as missing:
        clients.ollama.embed("other", "a")
    assert missing.value.status_code == 404


def test_ollama_lists(clients: Clients) -> None:
    models = {model.model: model for model in clients.ollama.list().models}
    assert models.keys() == {"talker:latest", "bert:latest", "nomic:latest", "ranker:latest"}
    details = models["nomic:latest"].details
    assert details is not None
    assert (details.family, details.format) == ("nomic-bert-moe", "gguf")
    shown = clients.ollama.show("bert")
    assert shown.capabilities == ["embedding"]
    assert shown.modelinfo is not None
    assert shown.modelinfo["bert.context_length"] == 64


def test_ollama_loads_and_unloads(clients: Clients) -> None:
    assert clients.ollama.embed("nomic", "", keep_alive=0).embeddings == []
    assert "nomic:latest" not in [model.model for model in clients.ollama.ps().models]
    assert len(clients.ollama.embed("nomic", "hello").embeddings) == 1
    assert "nomic:latest" in [model.model for model in clients.ollama.ps().models]


def test_rerank(clients: Clients) -> None:
    with httpx.Client(trust_env=False, timeout=60) as client:
        body = {"model": "ranker", "query": "the king", "documents": TEXTS}
        answer = client.post(f"{clients.url}/v1/rerank", json=body).json()
        scores = {item["index"]: item["relevance_score"] for item in answer["results"]}
        assert list(scores.values()) == sorted(scores.values(), reverse=True)
        assert len(set(scores.values())) == len(TEXTS)
        for index, text in enumerate(TEXTS):
            alone = client.post(f"{clients.url}/rerank", json={**body, "documents": [text]}).json()
            assert alone["results"][0]["relevance_score"] == scores[index]
        refused = client.post(f"{clients.url}/v1/rerank", json={**body, "model": "bert"})
        assert refused.status_code == 400
        message = "model 'bert' serves embed, not rerank; use /v1/embeddings or /api/embed"
        assert refused.json()["error"]["message"] == message


def test_a_text_has_the_same_bytes_in_any_company(clients: Clients) -> None:
    """Alone, in a batch of 64, the batch reversed, and with eight clients at once while a conversation draws."""

    def vectors(texts: list[str]) -> list[list[float]]:
        answer = clients.openai.embeddings.create(model="nomic", input=texts)
        return [item.embedding for item in answer.data]

    texts = [f"{TEXTS[n % 5]} {'the king ' * (n % 7)}{n}" for n in range(64)]
    alone = [vectors([text])[0] for text in texts]
    assert vectors(texts) == alone
    assert vectors(texts[::-1])[::-1] == alone
    with ThreadPoolExecutor(9) as threads:
        chat = threads.submit(
            clients.openai.completions.create, model="talker", prompt="The", max_tokens=48, temperature=0
        )
        found = list(threads.map(lambda start: vectors(texts[start : start + 8]), range(0, 64, 8)))
        assert chat.result().choices[0].finish_reason
    assert [vector for part in found for vector in part] == alone


def test_asynchronous_clients_at_once(clients: Clients) -> None:
    async def scenario() -> None:
        http = openai.DefaultAsyncHttpxClient(trust_env=False)
        async with openai.AsyncOpenAI(base_url=f"{clients.url}/v1", api_key="x", http_client=http) as client:
            answers = await asyncio.gather(*(client.embeddings.create(model="bert", input=text) for text in TEXTS * 8))
        vectors = [answer.data[0].embedding for answer in answers]
        assert vectors == vectors[: len(TEXTS)] * 8

    asyncio.run(scenario())
