"""The embed plugin passes golem-host's conformance suite."""

from __future__ import annotations

from pathlib import Path

from golem_host.testing.conformance import PluginConformance, Sample
from golem_host.testing.tiny_bert import tiny_bert_directory


class TestConformance(PluginConformance):
    plugin = "embed"
    documents = (Path(__file__).parents[3] / "docs" / "settings.md",)
    takes_any_field = "llama-server and Ollama ignore fields they do not know, and clients send theirs"
    samples = (
        Sample("POST", "/v1/embeddings", json={"model": "tiny", "input": ["one", "a second text"]}),
        Sample("POST", "/api/embed", json={"model": "tiny", "input": "three"}),
        Sample("POST", "/v1/rerank", json={"model": "ranker", "query": "who", "documents": ["me", "not you"]}),
        Sample("POST", "/v1/rerank", json={"model": "ranker", "query": "what", "documents": ["this", "that one"]}),
    )

    def settings(self, folder: Path) -> dict[str, list[str]]:
        tiny = tiny_bert_directory(folder / "tiny")
        ranker = tiny_bert_directory(folder / "ranker", classifier=True, context=32)
        return {"embed-model": [str(tiny), str(ranker)]}
