"""Request fields that are known and not honoured yet: refused by name unless they ask for nothing.

The README's table of fields lists the same names; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from golem_host.http.fields import Fields


@dataclass(frozen=True)
class Unserved:
    """`neutral` values ask for nothing (null and absence never do)."""

    name: str
    reason: str
    neutral: tuple[Any, ...] = ()


_TOOLS = "it is called tools and tool_choice now"
_OWN_SHAPE = "it belongs to llama-server's own answer format"
_SHIFT = "the context never shifts; an answer that fills it ends with 'length'"
_PICTURES = "this route draws text, not pictures"

NATIVE = (
    Unserved("lora", "there are no adapters", ([],)),
    Unserved("n_keep", _SHIFT, (0,)),
    Unserved("n_discard", _SHIFT, (0,)),
    Unserved("n_cache_reuse", "only a shared beginning of prompts is reused", (0,)),
)
"""On llama-server's own `/completion` and `/infill`, and on both `/v1` routes."""

V1 = (
    *NATIVE,
    Unserved("return_tokens", _OWN_SHAPE, (False,)),
    Unserved("verbose", _OWN_SHAPE, (False,)),
    Unserved("response_fields", _OWN_SHAPE, ([],)),
)
"""On both `/v1` routes."""

CHAT = (
    Unserved("functions", _TOOLS, ([],)),
    Unserved("function_call", _TOOLS, ("auto", "none")),
)
"""On `/v1/chat/completions`, beside `V1`."""

_ELSEWHERE = "/v1/chat/completions has it"

TRANSLATED = (
    Unserved("n_probs", _ELSEWHERE, (0,)),
    Unserved("post_sampling_probs", _ELSEWHERE, (False,)),
    Unserved("return_progress", _ELSEWHERE, (False,)),
    Unserved("timings_per_token", _ELSEWHERE, (False,)),
    Unserved("reasoning_control", _ELSEWHERE, (False,)),
    Unserved("logprobs", _ELSEWHERE, (False,)),
)
"""On routes that are answered as chats but write no such thing: `/v1/responses` and `/v1/messages`."""

MESSAGES = (Unserved("top_logprobs", _ELSEWHERE, (0,)),)
"""On `/v1/messages`, beside `TRANSLATED`."""

OLLAMA = (Unserved("_debug_render_only", "prompts are rendered to be answered", (False,)),)
"""On both `/api` routes."""

OLLAMA_GENERATE = (
    Unserved("template", "the model file's own template counts; raw takes a prompt as it is", ("",)),
    Unserved("images", "prompts are text only", ([],)),
    Unserved("width", _PICTURES, (0,)),
    Unserved("height", _PICTURES, (0,)),
    Unserved("steps", _PICTURES, (0,)),
)
"""On `/api/generate`, beside `OLLAMA`."""


def refuse_unserved(fields: Fields, *groups: tuple[Unserved, ...]) -> None:
    """Raise `BadRequest` naming the first field that asks for something not served."""
    for group in groups:
        for field in group:
            fields.refuse(field.name, field.reason, neutral=field.neutral)
