"""The object of `/v1/responses` around its output items."""

from __future__ import annotations

import secrets
import time
from typing import Any

from golem_host.http.fields import Fields
from golem_host_chat.routes.reading import Ending
from golem_host_chat.sampling_params import SamplingParams

_ECHOED = ("instructions", "max_output_tokens", "max_tool_calls", "user", "safety_identifier", "prompt_cache_key")


class Reply:
    """One response as it comes about; it repeats what was asked, with the defaults it was answered under."""

    def __init__(self, asked: Fields, params: SamplingParams, model: str) -> None:
        reasoning, text = asked.object("reasoning") or {}, asked.object("text") or {}
        self._shared = {
            "id": "resp_" + secrets.token_hex(24),
            "object": "response",
            "created_at": int(time.time()),
            "model": model,
            **{name: asked.value(name) for name in _ECHOED},
            "background": False,
            "metadata": asked.object("metadata") or {},
            "parallel_tool_calls": asked.boolean("parallel_tool_calls", True),
            "previous_response_id": None,
            "reasoning": {"effort": reasoning.get("effort"), "summary": None},
            "service_tier": "default",
            "store": False,
            "temperature": params.temperature,
            "text": {**text, "format": text.get("format") or {"type": "text"}},
            "tool_choice": asked.value("tool_choice") or "auto",
            "tools": asked.array("tools") or [],
            "top_p": params.top_p,
            "truncation": "disabled",
        }

    def begun(self) -> dict[str, Any]:
        """Before anything was drawn."""
        return self._object("in_progress", [])

    def ended(self, items: list[dict[str, Any]], ending: Ending, reasoning_tokens: int) -> dict[str, Any]:
        """With all items; an answer that reached its limit is `incomplete`."""
        cut = ending.finish == "length"
        completion = ending.completion
        return {
            **self._object("incomplete" if cut else "completed", items),
            "completed_at": None if cut else int(time.time()),
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "usage": {
                "input_tokens": completion.prompt_tokens,
                "input_tokens_details": {"cached_tokens": completion.cached_tokens, "cache_write_tokens": 0},
                "output_tokens": completion.completion_tokens,
                "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
                "total_tokens": completion.prompt_tokens + completion.completion_tokens,
            },
        }

    def _object(self, status: str, items: list[dict[str, Any]]) -> dict[str, Any]:
        unset = {"completed_at": None, "error": None, "incomplete_details": None, "usage": None}
        return {**self._shared, **unset, "status": status, "output": items}
