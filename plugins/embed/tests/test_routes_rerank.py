"""`/v1/rerank` and its other names, over a scripted cross-encoder whose score is the document's letters."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from scripted_embed import Served, serving
from test_routes_embeddings import LONG, run

DOCUMENTS = ["a", "z", "m", "a"]


@pytest.mark.parametrize("path", ["/v1/rerank", "/v1/reranking", "/rerank", "/reranking"])
def test_jina(tmp_path: Path, path: str) -> None:
    async def scenario(served: Served) -> None:
        body = (await served.post(path, query="hello", documents=DOCUMENTS)).json()
        assert (body["model"], body["object"]) == ("ranker", "list")
        assert body["usage"] == {"prompt_tokens": 20, "total_tokens": 20}
        assert [result["index"] for result in body["results"]] == [1, 2, 0, 3]
        scores = [result["relevance_score"] for result in body["results"]]
        assert scores == sorted(scores, reverse=True)
        assert {frozenset(result) for result in body["results"]} == {frozenset({"index", "relevance_score"})}
        assert served.ranker.seen[0].segments == [0, 0, 0, 1, 1]
        best = (await served.post(path, query="hello", documents=DOCUMENTS, top_n=2, return_documents=True)).json()
        assert [result["document"] for result in best["results"]] == [{"text": "z"}, {"text": "m"}]
        assert [result["relevance_score"] for result in best["results"]] == scores[:2]
        assert len((await served.post(path, query="", documents=["a"], top_n=9)).json()["results"]) == 1

    run(tmp_path, scenario)


def test_tei(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = (await served.post("/rerank", query="hello", texts=DOCUMENTS)).json()
        assert [set(item) for item in body] == [{"index", "score"}] * 4
        assert [item["index"] for item in body] == [1, 2, 0, 3]
        with_text = (await served.post("/rerank", query="hello", texts=DOCUMENTS, return_text=True)).json()
        assert [item["text"] for item in with_text] == ["z", "m", "a", "a"]

    run(tmp_path, scenario)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"documents": ["a"]}, '"query" must be provided'),
    ({"query": 3, "documents": ["a"]}, '"query" must be a string'),
    ({"query": "a"}, '"documents" must be a non-empty string array'),
    ({"query": "a", "documents": []}, '"documents" must be a non-empty string array'),
    ({"query": "a", "documents": "b"}, '"documents" must be a non-empty string array'),
    ({"query": "a", "documents": [{"text": "b"}]}, '"documents" must be a non-empty string array'),
    ({"query": "a", "texts": [3]}, '"texts" must be a non-empty string array'),
    ({"query": "a", "documents": ["b"] * 2049}, "2049 texts; one request may have 2048"),
    ({"query": "a", "documents": ["b"], "top_n": 0}, "Field 'top_n': expected a value from 1"),
    ({"query": "a", "documents": ["b"], "top_n": "1"}, "Field 'top_n': expected an integer"),
    ({"query": "a", "documents": ["b"], "return_documents": 1}, "Field 'return_documents': expected a boolean"),
    ({"query": "a", "texts": ["b"], "truncate": True}, "'truncate' is not served"),
    ({"query": "a", "documents": ["b"], "model": "scripted"}, "model 'scripted' serves embed, not rerank"),
]  # fmt: skip


def test_refusals(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for body, message in REFUSED:
            answer = await served.post("/v1/rerank", **body)
            assert answer.status_code == 400, body
            error = answer.json()["error"]
            assert message in error["message"]
            assert (error["code"], error["type"]) == (400, "invalid_request_error")
        assert served.ranker.seen == []

    run(tmp_path, scenario)


def test_pairs_that_are_too_long(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for query, documents, index in (("a", ["b", LONG], 1), (LONG, ["b"], 0), ("hello " * 20, ["world " * 20], 0)):
            answer = await served.post("/v1/rerank", query=query, documents=documents)
            assert answer.status_code == 400
            error = answer.json()["error"]
            assert f"'query' with text {index} of 'documents' has " in error["message"]
            assert (error["type"], error["n_ctx"]) == ("exceed_context_size_error", 32)

    run(tmp_path, scenario)


def test_without_a_reranker(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, ranks=False) as served:
            answer = await served.post("/v1/rerank", query="a", documents=["b"])
        assert answer.status_code == 404
        assert answer.json()["error"]["message"] == "no reranker is served; give a cross-encoder with --embed-model"

    asyncio.run(scenario())
