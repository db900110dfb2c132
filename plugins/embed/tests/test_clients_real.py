"""`golem-host --demo` on a real port: MiniLM through openai-python and ollama-python, beside a chat model."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest

from golem_host_embed.checkpoint import open_checkpoint
from oracle_client import Oracle
from server_process import Clients, server

pytestmark = pytest.mark.real

NAME = "all-MiniLM-L6-v2"
SENTENCES = [
    f"{who} {does} {what}{when}"
    for (who, does, what, when) in product(
        ["The old captain", "Nobody here", "A café in Zürich", "My sister's neighbour", "search_query: who"],
        ["sold", "never understood", "is looking for", "wrote 42 letters about"],
        ["the lighthouse", "quantum mechanics", "a second-hand bicycle", "naïve résumés", "它的历史"],
        [" last winter.", "!?"],
    )
]


@pytest.fixture(scope="module")
def clients(minilm_path: Path, smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    folder = tmp_path_factory.mktemp("home")
    (folder / NAME).symlink_to(minilm_path)
    (folder / smollm2_path.name).symlink_to(smollm2_path)
    with server(*("-P", "-m", "golem_host", "--demo", "--addr", "127.0.0.1:0", "--model-folder", str(folder))) as found:
        yield found


def vectors(clients: Clients, texts: str | list[str]) -> np.ndarray:
    answer = clients.openai.embeddings.create(model=NAME, input=texts)
    return np.array([item.embedding for item in answer.data])


@pytest.mark.oracle
def test_sentences_as_sentence_transformers_embeds_them(clients: Clients, minilm_path: Path, oracle: Oracle) -> None:
    """Its pipeline for this model: the mean of transformers' last rows, divided by its length."""
    assert len(set(SENTENCES)) == 200
    checkpoint = open_checkpoint(minilm_path)
    tokens = [text.ids for text in checkpoint.tokens().texts(SENTENCES, checkpoint.context_length)]
    checkpoint.close()
    expected = oracle.encoder(minilm_path, tokens, [[0] * len(ids) for ids in tokens]).astype(np.float64)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    # Sums in float32 in another order; the goal is 0.9999.
    assert (vectors(clients, SENTENCES) * expected).sum(1).min() > 0.999999


def test_meaning(clients: Clients) -> None:
    texts = ["How do I reset my password?", "I forgot my login credentials.", "The recipe needs two eggs."]
    one, two, three = vectors(clients, texts)
    assert one @ two > 0.5 > 0.2 > one @ three


def test_ollama_gives_the_same(clients: Clients) -> None:
    found = clients.ollama.embed(NAME, SENTENCES[:20])
    expected = vectors(clients, SENTENCES[:20])
    assert np.array(found.embeddings, np.float32).tolist() == expected.astype(np.float32).tolist()
    long = "The lighthouse keeper counts the ships that pass. " * 60
    assert clients.ollama.embed(NAME, long).prompt_eval_count == 256
    with pytest.raises(openai.BadRequestError, match="the model takes 256"):
        vectors(clients, long)


def test_the_same_bytes_while_conversations_draw(clients: Clients) -> None:
    texts = SENTENCES[:24]
    alone = [vectors(clients, text)[0].tolist() for text in texts]

    def talk(topic: str) -> str | None:
        messages: Any = [{"role": "user", "content": f"Tell me a story about {topic}."}]
        answer = clients.openai.chat.completions.create(
            model="SmolLM2-135M-Instruct.Q4_1", messages=messages, max_tokens=64, temperature=0
        )
        return answer.choices[0].message.content

    with ThreadPoolExecutor(6) as threads:
        stories = [threads.submit(talk, topic) for topic in ("a fox", "the sea", "a clock")]
        batches = [threads.submit(vectors, clients, texts) for _ in range(3)]
        assert all(batch.result().tolist() == alone for batch in batches)
        assert all(story.result() for story in stories)
