"""The plugin with its real runtime, in process: bad input and bad weights, residency, beside chat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from golem_host.host import Host
from golem_host.plugins import load
from golem_host.testing.inprocess import running, settings_of
from golem_host.testing.safetensors import safetensors_bytes
from golem_host.testing.tiny_bert import tiny_bert_directory, tiny_bert_gguf, word_pieces
from golem_host.testing.tiny_nomic_bert import tiny_nomic_gguf
from golem_host.weights import open_safetensors

Scenario = Callable[[Host, httpx.AsyncClient], Coroutine[Any, Any, None]]


def run(folder: Path, scenario: Scenario, *models: str, **settings: str) -> None:
    plugins = load(["embed"])

    async def whole() -> None:
        given = settings_of(folder, {"embed-model": models, **settings}, plugins.settings())
        async with running(given, plugins) as (host, client):
            await scenario(host, client)

    asyncio.run(whole())


def damage(folder: Path, piece: str) -> None:
    """Make the embedding of one piece infinite."""
    path = folder / "model.safetensors"
    with open_safetensors(path) as file:
        tensors = {name: tensor.float32().copy() for name, tensor in file.tensors.items()}
    tensors["embeddings.word_embeddings.weight"][word_pieces().index(piece), 3] = np.inf
    path.write_bytes(safetensors_bytes(tensors))


def test_weights_that_give_no_numbers_fail_their_request_alone(tmp_path: Path) -> None:
    damage(tiny_bert_directory(tmp_path / "bert"), "king")

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        async def embed(*texts: str) -> httpx.Response:
            return await client.post("/v1/embeddings", json={"input": texts})

        alone = (await embed("the queen")).json()["data"]
        bad, good, ollama = await asyncio.gather(
            embed("a queen", "the king"),
            embed("the queen"),
            client.post("/api/embed", json={"model": "bert", "input": "king"}),
        )
        assert bad.status_code == 500
        assert "text 1 is not finite" in bad.json()["error"]["message"]
        assert bad.headers["x-should-retry"] == "false"
        assert good.json()["data"] == alone
        assert ollama.status_code == 500
        assert "text 0 is not finite" in ollama.json()["error"]
        assert (await client.get("/health")).status_code == 200

    run(tmp_path, scenario, "bert")


def test_too_much_of_everything(tmp_path: Path) -> None:
    tiny_bert_directory(tmp_path / "bert")

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        for body, reason in (
            ({"input": ["a"] * 100_000}, "100000 texts; one request may have 2048"),
            ({"input": "hello " * 1_700_000}, "at least "),
            ({"input": [1] * 999_999}, "999999 tokens"),
        ):
            answer = await client.post("/v1/embeddings", json=body)
            assert answer.status_code == 400
            assert reason in answer.json()["error"]["message"]
        full = await client.post("/v1/embeddings", json={"input": ["hello the king"] * 2048})
        vectors = [item["embedding"] for item in full.json()["data"]]
        assert len(vectors) == 2048
        assert vectors == vectors[:1] * 2048
        assert full.json()["usage"]["prompt_tokens"] == 5 * 2048

    run(tmp_path, scenario, "bert")


def test_directory_and_gguf_answer_alike(tmp_path: Path) -> None:
    """Exact GELU and its approximation differ by less than 5e-4 in a value, so by little in a vector."""
    tiny_bert_directory(tmp_path / "folder")
    tiny_bert_gguf(tmp_path / "file.gguf")

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        texts = ["the king", "hello, world", "search query document engine ing"]
        folder, file = [
            np.array(
                (await client.post("/api/embed", json={"model": name, "input": texts})).json()["embeddings"], np.float64
            )
            for name in ("folder", "file")
        ]
        assert (folder * file).sum(1) == pytest.approx(np.ones(3), abs=1e-5)
        assert not (folder == file).all()

    run(tmp_path, scenario, "folder", "file")


def test_models_come_and_go(tmp_path: Path) -> None:
    tiny_nomic_gguf(tmp_path / "nomic.gguf")

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        async def vector() -> list[float]:
            return (await client.post("/api/embeddings", json={"model": "nomic", "prompt": "hello"})).json()[
                "embedding"
            ]

        first = await vector()
        [resident] = host.registry.all_residents()
        for _ in range(3):
            await client.post("/api/embed", json={"model": "nomic", "keep_alive": 0})
            assert resident.runtime is None
            assert await vector() == first

    run(tmp_path, scenario, "nomic")


def test_start_up_line(tmp_path: Path) -> None:
    from golem_host.host import model_line

    tiny_nomic_gguf(tmp_path / "nomic.gguf")

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        [resident] = host.registry.all_residents()
        line = model_line(resident, host.settings)
        assert line.startswith("nomic: nomic-bert-moe ")
        assert "texts of up to 128 tokens, cpu, loaded in" in line

    run(tmp_path, scenario, "nomic")


def test_a_model_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    (tiny_bert_directory(tmp_path / "bert") / "tokenizer.json").write_text("{}")

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        raise AssertionError("it started")

    with pytest.raises(Exception, match=r"model 'bert' cannot be loaded: .*tokenizer\.json: is no tokenizer"):
        run(tmp_path, scenario, "bert")
