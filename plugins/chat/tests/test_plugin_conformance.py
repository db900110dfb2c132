"""The chat plugin passes golem-host's conformance suite."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from golem_host.testing.conformance import PluginConformance, Sample
from golem_host.testing.conformance.answers import VOLATILE
from golem_host.testing.tiny import tiny_gguf


def openai_text(response: httpx.Response) -> Any:
    """The text of an answer, whole or in pieces."""
    if response.headers["content-type"].startswith("application/json"):
        choice = response.json()["choices"][0]
        return choice["message"]["content"] if "message" in choice else choice["text"]
    events = [line.removeprefix("data: ") for line in response.text.split("\n") if line.startswith("data: {")]
    choices = [choice for event in events for choice in json.loads(event)["choices"]]
    return "".join(choice["delta"].get("content") or "" if "delta" in choice else choice["text"] for choice in choices)


def ollama_text(response: httpx.Response) -> Any:
    return "".join(json.loads(line)["response"] for line in response.text.splitlines())


MORE = {"temperature": 0, "max_tokens": 8, "ignore_eos": True}


class TestConformance(PluginConformance):
    plugin = "chat"
    documents = (Path(__file__).parents[3] / "docs" / "settings.md",)
    takes_any_field = "llama-server, Ollama and OpenAI's clients send fields of later versions"
    volatile = VOLATILE | {"prompt_tokens_details", "prompt_ms", "predicted_ms"}
    samples = (
        Sample(
            "POST",
            "/v1/chat/completions",
            json={"model": "tiny", "messages": [{"role": "user", "content": "one"}], **MORE},
            stream={"stream": True},
            told=openai_text,
        ),
        Sample(
            "POST",
            "/v1/completions",
            json={"model": "tiny", "prompt": "another beginning", **MORE},
            stream={"stream": True},
            told=openai_text,
        ),
        Sample(
            "POST",
            "/api/generate",
            json={"model": "tiny", "prompt": "x", "stream": False, "options": {"temperature": 0, "num_predict": 6}},
            stream={"stream": True},
            told=ollama_text,
        ),
        Sample("POST", "/tokenize", json={"content": "some text"}, names_model=False),
    )

    def poison(self, job: Any) -> bool:
        """Its text cannot be told: the first token that is drawn raises."""

        def raising(text: str) -> bool:
            raise RuntimeError(f"poisoned at {text!r}")

        job.request = replace(job.request, complete=lambda: raising)
        return True

    def settings(self, folder: Path) -> dict[str, str]:
        return {"chat-model": f"tiny={tiny_gguf(folder / 'tiny.gguf', 'llama')}", "parallel": "2", "context": "512"}
