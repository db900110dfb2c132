"""`/api/embed` and `/api/embeddings`, over a scripted model."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golem_host.http.ollama_options import KNOWN
from golem_host_embed.tokens import Tokens
from scripted_embed import Served, vector_of
from test_routes_embeddings import LONG, expected, run


def test_embed(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for value, texts in (("Hello", [[2, 60, 3]]), (["world", ""], [[2, 61, 3], [2, 3]])):
            answer = await served.post("/api/embed", model="Scripted", input=value)
            body = answer.json()
            assert answer.status_code == 200, body
            assert body["model"] == "Scripted"
            assert body["prompt_eval_count"] == sum(map(len, texts))
            assert body["total_duration"] >= body["load_duration"] >= 0
            assert len(body["embeddings"]) == len(texts)
            for vector, ids in zip(body["embeddings"], texts, strict=True):
                assert vector == pytest.approx(expected(ids), abs=1e-7)

    run(tmp_path, scenario)


def test_dimensions(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for dimensions, width in ((3, 3), (8, 8), (99, 8), (0, 8), (-1, 8), (None, 8)):
            body = (await served.post("/api/embed", model="scripted", input="hello", dimensions=dimensions)).json()
            assert body["embeddings"] == [pytest.approx(expected([2, 60, 3], width), abs=1e-7)]

    run(tmp_path, scenario)


def test_long_texts_are_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.post("/api/embed", model="scripted", input=["hello", LONG + "world"])
        cut = [2, *[60] * 30, 3]
        assert answer.json()["embeddings"][1] == pytest.approx(expected(cut), abs=1e-7)
        assert answer.json()["prompt_eval_count"] == 35
        assert "scripted: texts that had more than 32 tokens and were cut: 1" in caplog.text
        huge = await served.post("/api/embed", model="scripted", input="hello " * 500_000)
        assert huge.json()["embeddings"] == [answer.json()["embeddings"][1]]
        shorter = await served.post("/api/embed", model="scripted", input=LONG, options={"num_ctx": 10})
        assert shorter.json()["prompt_eval_count"] == 10
        tiny = await served.post("/api/embed", model="scripted", input=LONG, options={"num_ctx": 1})
        assert tiny.json()["prompt_eval_count"] == 3
        more = await served.post("/api/embed", model="scripted", input=LONG, options={"num_ctx": 8192})
        assert more.json()["prompt_eval_count"] == 32

    with caplog.at_level(logging.INFO, "golem_host.embed"):
        run(tmp_path, scenario)


def test_long_texts_are_refused_when_asked(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.post("/api/embed", model="scripted", input=["hello", LONG], truncate=False)
        assert (answer.status_code, answer.json()) == (
            400,
            {"error": "the input length exceeds the context length"},
        )
        assert (await served.post("/api/embed", model="scripted", input="hello", truncate=False)).status_code == 200

    run(tmp_path, scenario)


def test_nothing_to_embed_loads_or_unloads(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        async def loaded() -> bool:
            names = [model["name"] for model in (await served.client.get("/api/ps")).json()["models"]]
            return "scripted:latest" in names

        for path, body, empty in (
            ("/api/embed", {"input": ""}, {"model": "scripted", "embeddings": []}),
            ("/api/embed", {"input": []}, {"model": "scripted", "embeddings": []}),
            ("/api/embed", {}, {"model": "scripted", "embeddings": []}),
            ("/api/embeddings", {"prompt": ""}, {"embedding": []}),
            ("/api/embeddings", {"input": "the field of the newer route"}, {"embedding": []}),
        ):
            for keep_alive, stays in ((0, False), ("5m", True)):
                answer = await served.post(path, model="scripted", keep_alive=keep_alive, **body)
                assert (answer.status_code, answer.json()) == (200, empty)
                assert await loaded() == stays
        assert served.model.seen == []

    run(tmp_path, scenario)


def test_embeddings_is_one_raw_vector(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.post("/api/embeddings", model="scripted", prompt="hello")
        raw = vector_of(Tokens([2, 60, 3]))
        assert answer.json() == {"embedding": pytest.approx(raw, rel=1e-6)}
        assert abs(np.linalg.norm(answer.json()["embedding"]) - 1) > 0.5
        long = await served.post("/api/embeddings", model="scripted", prompt=LONG)
        assert long.json()["embedding"][0] == 32

    run(tmp_path, scenario)


REFUSED: list[tuple[str, dict[str, Any], int, str]] = [
    ("/api/embed", {"model": "scripted", "input": 3}, 400, "invalid input type"),
    ("/api/embed", {"model": "scripted", "input": [3]}, 400, "invalid input type"),
    ("/api/embed", {"model": "scripted", "input": [["a"]]}, 400, "invalid input type"),
    ("/api/embed", {"model": "scripted", "input": {"a": 1}}, 400, "invalid input type"),
    ("/api/embed", {"model": "scripted", "input": ["a"] * 2049}, 400, "2049 texts; one request may have 2048"),
    ("/api/embed", {"model": "scripted", "input": "a", "truncate": "no"}, 400, "Field 'truncate': expected a boolean"),
    ("/api/embed", {"model": "scripted", "input": "a", "dimensions": 1.5}, 400, "Field 'dimensions'"),
    ("/api/embed", {"model": "scripted", "input": "a", "options": {"other": 1}}, 400, "unknown option 'other'"),
    ("/api/embed", {"model": "scripted", "input": "a", "options": {"num_gpu": "x"}}, 400, "options.num_gpu"),
    ("/api/embed", {"model": "scripted", "input": "a", "options": {"num_ctx": -1}}, 400, "options.num_ctx"),
    ("/api/embed", {"model": "scripted", "input": "a", "keep_alive": "x"}, 400, "keep_alive"),
    ("/api/embed", {"input": "a"}, 404, "model '' not found"),
    ("/api/embed", {"model": "", "input": "a"}, 404, "model '' not found"),
    ("/api/embed", {"model": "other", "input": "a"}, 404, "model 'other' not found"),
    ("/api/embed", {"model": "other"}, 404, "model 'other' not found"),
    ("/api/embed", {"model": "talker", "input": "a"}, 400, "model 'talker' serves chat, not embed; use /v1/chat"),
    ("/api/embeddings", {"prompt": "a"}, 400, "model is required"),
    ("/api/embeddings", {"model": "scripted", "prompt": ["a"]}, 400, "Field 'prompt': expected a string"),
    ("/api/embeddings", {"model": "scripted", "prompt": "a", "options": []}, 400, "Field 'options'"),
    ("/api/embeddings", {"model": "other", "prompt": "a"}, 404, "model 'other' not found"),
]  # fmt: skip


def test_refusals(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for path, body, status, message in REFUSED:
            answer = await served.post(path, **body)
            assert answer.status_code == status, body
            assert answer.json().keys() == {"error"}
            assert message in answer.json()["error"]
        nothing = await served.client.post("/api/embed", content=b"")
        assert (nothing.status_code, nothing.json()) == (400, {"error": "missing request body"})
        assert served.model.seen == []

    run(tmp_path, scenario, any_model="false")


def test_documented_options_are_taken(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        values = {name: None for name in KNOWN} | {"temperature": 0.5, "num_gpu": 1, "stop": ["x"], "use_mmap": True}
        answer = await served.post("/api/embed", model="scripted", input="hello", options=values)
        assert answer.status_code == 200, answer.json()

    run(tmp_path, scenario)
