"""The sampling of a request: its fields over the model file's defaults."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from golem_host.http.fields import Fields
from golem_host_chat.sampling_params import SamplingParams
from golem_host_chat.sampling_request import read_sampling

if TYPE_CHECKING:
    from golem_host_chat.runtime import ChatRuntime

MAX_BIASED_CHARACTERS = 1024
"""A text of `logit_bias` is meant to be a word or a few."""
MAX_BIASES = 4096
"""Each is worked through on the thread that serves all conversations."""


def takes_long(fields: Fields) -> bool:
    """Whether `sampling_of` may take long, however short the request: dry's breakers are looked for in the texts of the
    whole vocabulary.
    """
    return fields.has("dry_multiplier")


def sampling_of(fields: Fields, runtime: ChatRuntime, *, ignore_eos: bool = False) -> SamplingParams:
    """The sampling `fields` ask for. `ignore_eos` bans every token that ends an answer. Raises `BadRequest`."""
    tokenizer = runtime.tokenizer

    def tokenize(text: str) -> Sequence[int]:
        if len(text) > MAX_BIASED_CHARACTERS:
            raise fields.fault("logit_bias", f"a text has more than {MAX_BIASED_CHARACTERS} characters")
        return tokenizer.encode(text, add_special=False, parse_special=False)

    biases = fields.value("logit_bias")
    if isinstance(biases, dict | list) and len(biases) > MAX_BIASES:
        raise fields.fault("logit_bias", f"{len(biases)} biases are given; at most {MAX_BIASES} are taken")
    params = read_sampling(
        fields,
        runtime.sampling,
        vocab_size=len(tokenizer.vocab),
        tokenize=tokenize,
        restarts=runtime.restarts,
    )
    if not ignore_eos:
        return params
    ends = sorted(tokenizer.vocab.end_of_generation)
    return replace(params, logit_bias=(*params.logit_bias, *((token, -math.inf) for token in ends)))
