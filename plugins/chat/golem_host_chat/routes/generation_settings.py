"""llama-server's `generation_settings`: how answers are drawn."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

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
