"""The sampling of a request: its fields over the model file's defaults, and the tokens that must not be drawn."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from golem_host.http.fields import Fields
from golem_host_chat.sampling_params import SamplingParams
from golem_host_chat.sampling_request import read_sampling

if TYPE_CHECKING:
    from golem_host_chat.runtime import ChatRuntime


def sampling_of(fields: Fields, runtime: ChatRuntime, *, ignore_eos: bool = False) -> SamplingParams:
    """The sampling `fields` ask for. `ignore_eos` bans every token that ends an answer. Raises `BadRequest`."""
    tokenizer = runtime.tokenizer
    vocab = tokenizer.vocab
    params = read_sampling(
        fields,
        runtime.sampling,
        vocab_size=len(vocab),
        tokenize=lambda text: tokenizer.encode(text, add_special=False, parse_special=False),
    )
    banned = [*vocab.suppressed, *(sorted(vocab.end_of_generation) if ignore_eos else ())]
    return replace(params, logit_bias=(*params.logit_bias, *((token, -math.inf) for token in banned)))
