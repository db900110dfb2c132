"""The objects of an Ollama answer: pieces, the final one, and the answer to a request that only loads or unloads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from golem_host.http.timestamps import now_rfc3339
from golem_host_chat.generation import Completion
from golem_host_chat.routes.reading import Ending, Piece

NS_PER_MS = 1_000_000

NOTHING = Piece()

Holder = Callable[[Piece | Ending, int], dict[str, Any]]
"""Where an API keeps what is said, after so many calls."""


def chat_part(said: Piece | Ending, called: int) -> dict[str, Any]:
    """`/api/chat`: a message, also where nothing is said."""
    message: dict[str, Any] = {"role": "assistant", "content": said.content}
    if said.reasoning:
        message["thinking"] = said.reasoning
    if said.calls:
        # Ollama tells the index with the function; LiteLLM looks for it beside that, and joins calls without one.
        message["tool_calls"] = [
            {
                "id": call.id,
                "index": index,
                "function": {"index": index, "name": call.name, "arguments": call.object},
            }
            for index, call in enumerate(said.calls, start=called)
        ]
    return {"message": message}


def generate_part(said: Piece | Ending, called: int) -> dict[str, Any]:
    """`/api/generate`: texts; its answers have no calls."""
    return {"response": said.content, **({"thinking": said.reasoning} if said.reasoning else {})}


class Reply:
    """Builds the objects of one answer; durations (ns) count from its making. `model` is the name as requested."""

    def __init__(self, model: str, holder: Holder) -> None:
        self._model = model
        self._holder = holder
        self._started = time.monotonic_ns()
        self._load_ns = 0
        self._called = 0
        """Calls that were told."""

    def loaded(self) -> None:
        """The model is in memory now."""
        self._load_ns = time.monotonic_ns() - self._started

    def piece(self, said: Piece | Ending) -> dict[str, Any]:
        held = self._holder(said, self._called)
        self._called += len(said.calls)
        return {"model": self._model, "created_at": now_rfc3339(), **held, "done": False}

    def residency(self, reason: str) -> dict[str, Any]:
        """Nothing was drawn: `reason` is `load` or `unload`."""
        return {
            **self.piece(NOTHING),
            "done": True,
            "done_reason": reason,
            "total_duration": time.monotonic_ns() - self._started,
            "load_duration": self._load_ns,
        }

    def final(self, completion: Completion, said: Piece | Ending) -> dict[str, Any]:
        """The last object; `said` is what has not been sent yet. Calls do not show in `done_reason` (Ollama)."""
        timings = completion.timings
        return {
            **self.piece(said),
            "done": True,
            "done_reason": completion.finish,
            "total_duration": time.monotonic_ns() - self._started,
            "load_duration": self._load_ns,
            "prompt_eval_count": completion.prompt_tokens,
            "prompt_eval_duration": round(timings.prompt_ms * NS_PER_MS),
            "eval_count": completion.completion_tokens,
            "eval_duration": round(timings.predicted_ms * NS_PER_MS),
        }
