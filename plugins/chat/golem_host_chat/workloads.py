"""What `golem-host bench` times of a chat model: a prompt, one conversation, and as many as there are slots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import numpy as np

from golem_host.api import Workload
from golem_host.text.token_type import TokenType
from golem_host_chat.generation import Completion, Generation
from golem_host_chat.runtime import ChatRuntime
from golem_host_chat.sampling_params import SamplingParams

PROMPT = 480
"""Tokens of a prompt, and ..."""
DRAWN = 64
"""... tokens of an answer, where a slot has room for them."""


def workloads(runtime: ChatRuntime) -> Sequence[Workload]:
    """Prompts are random ordinary tokens, answers the likeliest tokens; nothing ends an answer early."""
    vocab = runtime.tokenizer.vocab
    ordinary = np.flatnonzero(vocab.types == TokenType.NORMAL).tolist()
    params = SamplingParams(
        temperature=0.0, logit_bias=tuple((token, -math.inf) for token in sorted(vocab.end_of_generation))
    )
    read = min(PROMPT, runtime.context - 1)
    drawn = min(DRAWN, runtime.context - 1)

    def prompt(turn: int) -> list[Generation]:
        tokens = Random(turn).choices(ordinary, k=read)
        return [Generation(tokens, params, max_tokens=0, reuse=False)]

    def conversations(turn: int, count: int) -> list[Generation]:
        starts = Random(turn).choices(ordinary, k=count)
        return [Generation([start], params, max_tokens=drawn, reuse=False) for start in starts]

    def tokens_drawn(answers: Sequence[Completion]) -> float:
        return sum(answer.completion_tokens for answer in answers)

    works = [
        Workload(f"prompt of {read} tokens", "tokens", prompt, lambda _: read),
        Workload(f"one answer of {drawn} tokens", "tokens", lambda turn: conversations(turn, 1), tokens_drawn),
    ]
    if (slots := runtime.slots) > 1:
        name = f"{slots} answers of {drawn} tokens at once"
        works.append(Workload(name, "tokens", lambda turn: conversations(turn, slots), tokens_drawn))
    return works
