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


_TOOLS = "tool calls are not served yet"
_CONSTRAINED = "answers cannot be constrained to a format yet"
_PROBABILITIES = "token probabilities are not served yet"
_SAMPLER = "this sampler is not served yet"
_NATIVE = "llama-server's own answer format is not served yet"
_SHIFT = "the context never shifts here: an answer that fills it ends with finish reason 'length'"
_REASONING = "reasoning is not separated from the answer yet"

V1 = (
    Unserved("grammar", _CONSTRAINED, ("",)),
    Unserved("json_schema", _CONSTRAINED),
    Unserved("response_format", _CONSTRAINED, ({"type": "text"},)),
    Unserved("n_probs", _PROBABILITIES, (0,)),
    Unserved("post_sampling_probs", _PROBABILITIES, (False,)),
    Unserved("samplers", "the order of the samplers is fixed"),
    Unserved("top_n_sigma", _SAMPLER, (-1, 0)),
    Unserved("xtc_probability", _SAMPLER, (0,)),
    Unserved("dynatemp_range", _SAMPLER, (0,)),
    Unserved("dry_multiplier", _SAMPLER, (0,)),
    Unserved("mirostat", _SAMPLER, (0,)),
    Unserved("adaptive_target", _SAMPLER, (-1,)),
    Unserved("min_keep", _SAMPLER, (0,)),
    Unserved("id_slot", "slots are chosen by the host", (-1,)),
    Unserved("lora", "adapters are not served", ([],)),
    Unserved("t_max_predict_ms", "a time limit is not served", (0, -1)),
    Unserved("n_keep", _SHIFT, (0,)),
    Unserved("n_discard", _SHIFT, (0,)),
    Unserved("n_indent", "a minimum indentation is not served", (0,)),
    Unserved("n_cache_reuse", "only a shared beginning of the prompt is reused", (0,)),
    Unserved("return_progress", _NATIVE, (False,)),
    Unserved("return_tokens", _NATIVE, (False,)),
    Unserved("verbose", _NATIVE, (False,)),
    Unserved("response_fields", _NATIVE, ([],)),
)
"""On both `/v1` routes."""

CHAT = (
    Unserved("tools", _TOOLS, ([],)),
    Unserved("tool_choice", _TOOLS, ("auto", "none")),
    Unserved("functions", _TOOLS, ([],)),
    Unserved("function_call", _TOOLS, ("auto", "none")),
    Unserved("logprobs", _PROBABILITIES, (False,)),
    Unserved("top_logprobs", _PROBABILITIES, (0,)),
    Unserved("reasoning_format", _REASONING, ("none", "auto")),
    Unserved("reasoning_budget_tokens", _REASONING, (-1,)),
    Unserved("thinking_budget_tokens", _REASONING, (-1,)),
)
"""On `/v1/chat/completions`, beside `V1`."""

COMPLETIONS = (
    Unserved("logprobs", _PROBABILITIES, (0,)),
    Unserved("suffix", "this model does not support insert", ("",)),
    Unserved("best_of", "answers are not ranked; ask for several with n", (1,)),
)
"""On `/v1/completions`, beside `V1`."""

OLLAMA = (
    Unserved("format", _CONSTRAINED, ("",)),
    Unserved("logprobs", _PROBABILITIES, (False,)),
    Unserved("top_logprobs", _PROBABILITIES, (0,)),
    Unserved("_debug_render_only", "rendering alone is not served", (False,)),
)
"""On both `/api` routes."""

OLLAMA_CHAT = (Unserved("tools", _TOOLS, ([],)),)
"""On `/api/chat`, beside `OLLAMA`."""

OLLAMA_GENERATE = (
    Unserved("suffix", "this model does not support insert", ("",)),
    Unserved("template", "the model file's own template is used; send raw: true to write the prompt yourself", ("",)),
    Unserved("images", "images are not served yet", ([],)),
    Unserved("width", "this route draws text, not pictures", (0,)),
    Unserved("height", "this route draws text, not pictures", (0,)),
    Unserved("steps", "this route draws text, not pictures", (0,)),
)
"""On `/api/generate`, beside `OLLAMA`."""


def refuse_unserved(fields: Fields, *groups: tuple[Unserved, ...]) -> None:
    """Raise `BadRequest` naming the first field that asks for something not served."""
    for group in groups:
        for field in group:
            fields.refuse(field.name, field.reason, neutral=field.neutral)
