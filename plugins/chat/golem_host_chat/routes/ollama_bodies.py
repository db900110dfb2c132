"""What `/api/chat` and `/api/generate` answer: pieces and the final object, times in Ollama's units."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from golem_host_chat.generation import Completion

NS_PER_MS = 1_000_000

Holder = Callable[[str], dict[str, Any]]
"""Where an API keeps its text: `chat_text` or `generate_text`."""


def chat_text(text: str) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text}}


def generate_text(text: str) -> dict[str, Any]:
    return {"response": text}


def created_at() -> str:
    """Now, RFC 3339 with nanoseconds, UTC."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, tz=timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"


class Reply:
    """Builds the objects of one answer. `model` is the name as the request wrote it.

    Durations count from the moment the reply was made; `loaded` is called once the model is there.
    """

    def __init__(self, model: str, holder: Holder) -> None:
        self._model = model
        self._holder = holder
        self._started = time.monotonic_ns()
        self._load_ns = 0

    def loaded(self) -> None:
        self._load_ns = time.monotonic_ns() - self._started

    def piece(self, text: str) -> dict[str, Any]:
        return {"model": self._model, "created_at": created_at(), **self._holder(text), "done": False}

    def residency(self, reason: str) -> dict[str, Any]:
        """The answer to a request that only loads or unloads (`reason` says which)."""
        return {
            **self.piece(""),
            "done": True,
            "done_reason": reason,
            "total_duration": time.monotonic_ns() - self._started,
            "load_duration": self._load_ns,
        }

    def final(self, completion: Completion, text: str, **members: Any) -> dict[str, Any]:
        """The last object; `text` is what has not been sent yet."""
        timings = completion.timings
        return {
            **self.piece(text),
            "done": True,
            "done_reason": completion.finish,
            **members,
            "total_duration": time.monotonic_ns() - self._started,
            "load_duration": self._load_ns,
            "prompt_eval_count": completion.prompt_tokens,
            "prompt_eval_duration": round(timings.prompt_ms * NS_PER_MS),
            "eval_count": completion.completion_tokens,
            "eval_duration": round(timings.predicted_ms * NS_PER_MS),
        }
