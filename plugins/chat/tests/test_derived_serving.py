"""The real command: models that ollama-python makes are there, and answer the same, after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ollama
import pytest

from golem_host.testing.tiny import tiny_gguf
from server_process import Clients, server

MESSAGES: Any = [{"role": "user", "content": "Hi"}]


def text(clients: Clients, model: str, options: dict[str, Any] | None = None) -> str:
    parts = list(clients.ollama.chat(model, messages=MESSAGES, options=options, stream=True))
    joined = "".join(part.message.content or "" for part in parts)
    whole = clients.ollama.chat(model, messages=MESSAGES, options=options)
    assert whole.message.content == joined
    assert parts[-1].eval_count == whole.eval_count == 6
    return joined


def test_made_copied_served_after_a_restart_and_deleted(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "llama")
    command = (
        *("-P", "-m", "golem_host", "--enable", "chat", "--chat-model", f"base={path}", "--no-any-model"),
        *("--addr", "127.0.0.1:0", "--model-folder", str(tmp_path / "home"), "--max-tokens", "6"),
    )
    with server(*command) as clients:
        said = clients.ollama.create(
            "pirate", from_="base", system="Arr, matey", parameters={"temperature": 0, "num_predict": 6}, stream=True
        )
        assert [line.status for line in said][-1] == "success"
        clients.ollama.copy("pirate", "buccaneer")
        answer = text(clients, "pirate")
        assert text(clients, "buccaneer") == answer != text(clients, "base", {"temperature": 0})
        digest = clients.ollama.create_blob(path)
        clients.ollama.create("sent", files={"tiny.gguf": digest})
        assert {model.model for model in clients.ollama.list().models} == {
            "base:latest", "pirate:latest", "buccaneer:latest", "sent:latest",
        }  # fmt: skip
    with server(*command) as clients:
        assert text(clients, "buccaneer") == text(clients, "pirate") == answer
        assert clients.ollama.show("pirate").modelinfo
        assert clients.openai.models.retrieve("sent").id == "sent"
        assert len(clients.ollama.generate("sent", "Hi").response or "") > 0
        for name in ("pirate", "sent"):
            clients.ollama.delete(name)
            with pytest.raises(ollama.ResponseError, match="not found"):
                clients.ollama.chat(name, messages=MESSAGES)
        assert text(clients, "buccaneer") == answer
