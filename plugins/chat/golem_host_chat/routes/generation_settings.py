"""llama-server's `generation_settings`: how answers are drawn."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from golem_host_chat.routes.choices import Draw
from golem_host_chat.sampling_params import RANDOM_SEED, SamplingParams

_NOT_SHOWN = ("logit_bias", "dry_restarts")


def generation_settings(params: SamplingParams, *, max_tokens: int | None, stream: bool = False) -> dict[str, Any]:
    """`params` under llama-server's names; `max_tokens` None is its -1, a seed that is drawn its largest."""
    settings = {each.name: getattr(params, each.name) for each in fields(params) if each.name not in _NOT_SHOWN}
    most = -1 if max_tokens is None else max_tokens
    return {
        **settings,
        "seed": RANDOM_SEED if params.seed is None else params.seed,
        "samplers": list(params.samplers),
        "max_tokens": most,
        "n_predict": most,
        "stream": stream,
    }


def request_settings(draw: Draw, *, stream: bool, ignore_eos: bool, grammar: str) -> dict[str, Any]:
    """All that llama-server's answers say of how `draw` is drawn; what this host has nothing of is off. `grammar` is
    the one that was asked for.
    """
    probs = draw.extras.probs
    return {
        **generation_settings(draw.params, max_tokens=draw.max_tokens, stream=stream),
        "stop": list(draw.stops),
        "n_keep": 0,
        "n_discard": 0,
        "ignore_eos": ignore_eos,
        "logit_bias": [{"bias": _finite(bias), "token": token} for token, bias in draw.params.logit_bias],
        "n_probs": 0 if probs is None else probs.top,
        "post_sampling_probs": probs is not None and probs.after,
        "timings_per_token": draw.extras.timed,
        "grammar": grammar,
        "grammar_lazy": False,
        "grammar_triggers": [],
        "preserved_tokens": [],
        "chat_format": "Content-only",
        "reasoning_format": "none",
        "reasoning_in_content": False,
        "generation_prompt": "",
        "speculative.types": "none",
        "backend_sampling": False,
        "lora": [],
    }


def _finite(bias: float) -> float | None:
    """JSON has no infinity: a ban is null, as llama-server writes it."""
    return bias if math.isfinite(bias) else None
