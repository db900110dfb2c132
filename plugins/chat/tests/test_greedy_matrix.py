"""Greedy answers of every family, with every common storage of weights, over real vocabularies, are llama.cpp's.

A vocabulary is whole with one family and storage, and with the others the part of it that `part_of` keeps: nothing of a
layer depends on how many tokens there are, and what writes and reads a file does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from family_checks import complete
from golem_host.devices.cpu import CpuBackend
from golem_host.testing.tiny import tiny_gguf
from golem_host.testing.tiny_gemma4 import DENSE, MIXTURE, Gemma4Shape
from golem_host.testing.tiny_vocab import NORMAL, Vocabulary
from golem_host.text.tokenizer import tokenizer_from_gguf
from golem_host.weights.gguf import open_gguf
from oracle_client import Oracle

NEAR_TIE = 0.05
"""Of log probabilities. Sums in another order push an activation over the border of its eight or eleven bits here and
there, which moves logits by hundredths; answers may part where llama.cpp's own two likeliest tokens lie closer."""

PROMPTS = (
    "Hello",
    "The first planets are Mercury, Venus and Earth. \u041f\u0440\u0438\u0432\u0435\u0442, \u4f60\u597d!",
    # Past the windows of 32 positions.
    "def fibonacci(n):\n    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)\n\n" * 4,
)

TYPES: dict[str, dict[str, Any]] = {
    **{name: {"quantization": name} for name in ("F16", "BF16", "Q8_0", "Q4_0", "Q6_K")},
    "Q4_K_M": {"quantization": "Q4_K", "types": dict.fromkeys(("token_embd", "attn_v", "ffn_down"), "Q6_K")},
}

FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("llama", "llama-spm", {}),
    "llama-3": ("llama", "llama-bpe", {"rope_factors": True}),
    "mixtral": ("llama", "llama-spm", {"experts": 8, "experts_used": 2}),
    "mistral3": ("mistral3", "llama-bpe", {}),
    "smollm3": ("smollm3", "llama-bpe", {}),
    "gemma2": ("gemma2", "llama-spm", {}),
    "gemma3": ("gemma3", "llama-spm", {}),
    "gemma4-e2b": ("gemma4", "gemma-4", {"gemma4": Gemma4Shape()}),
    "gemma4-12b": ("gemma4", "gemma-4", {"gemma4": DENSE}),
    "gemma4-26b": ("gemma4", "gemma-4", {"gemma4": MIXTURE}),
    "qwen2": ("qwen2", "qwen2", {}),
    "qwen3": ("qwen3", "qwen2", {}),
    "qwen3moe": ("qwen3moe", "qwen2", {}),
    "qwen35": ("qwen35", "qwen35", {}),
    "qwen35moe": ("qwen35moe", "qwen35", {}),
}
"""Architecture, vocabulary of llama.cpp's tree (the nearest there is), further options of `tiny_gguf`."""

WHOLE = {("llama", "Q4_0"), ("llama-3", "F16"), ("gemma4-12b", "Q4_K_M"), ("qwen2", "Q8_0"), ("qwen35", "Q6_K")}
"""Families and types that have a whole vocabulary, each of them once."""
KEPT = 4096
"""Tokens that a part of a vocabulary begins with."""


@cache
def real_vocabulary(path: Path) -> Vocabulary:
    """The vocabulary of a GGUF file."""
    prefix = "tokenizer.ggml."
    with open_gguf(path) as gguf:
        keys = {name.removeprefix(prefix): gguf.metadata[name] for name in gguf.metadata if name.startswith(prefix)}
        return Vocabulary(
            model=keys["model"],
            tokens=keys["tokens"].strs(),
            types=keys["token_type"].tolist(),
            scores=keys["scores"].tolist() if "scores" in keys else None,
            merges=keys["merges"].strs() if "merges" in keys else None,
            keys={
                name: value for name, value in keys.items() if isinstance(value, str | int | bool) and name != "model"
            },
        )


@cache
def part_of(path: Path) -> Vocabulary:
    """The first tokens of the vocabulary of a GGUF file, special ones, single bytes and single characters, with what
    merges into them: a vocabulary of its own, since merges come before those that build on them."""
    whole = real_vocabulary(path)
    kept = [
        at
        for at, (token, type) in enumerate(zip(whole.tokens, whole.types, strict=True))
        if at < KEPT or type != NORMAL or len(token) == 1
    ]
    place = {old: new for new, old in enumerate(kept)}
    tokens = [whole.tokens[at] for at in kept]
    known = set(tokens)
    merges = whole.merges and [
        merge for merge in whole.merges if known.issuperset((*merge.split(" "), merge.replace(" ", "")))
    ]
    return replace(
        whole,
        tokens=tokens,
        types=[whole.types[at] for at in kept],
        scores=whole.scores and [whole.scores[at] for at in kept],
        merges=merges,
        keys={name: place[int(value)] if name.endswith("_token_id") else value for name, value in whole.keys.items()},
    )


def calm(tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    """Logits with a standard deviation of about a half: what eight bits move grows with them."""
    norm, head = tensors["output_norm.weight"], tensors["token_embd.weight"]
    size = 2 * np.abs(norm).mean() * head[:1000].std() * np.sqrt(head.shape[1])
    tensors["output_norm.weight"] = (norm / size).astype(np.float32)
    return {}


def sizes(options: Mapping[str, Any], *, whole_blocks: bool) -> dict[str, Any]:
    """The options with rows of whole blocks of 256 values where types want them."""
    if not whole_blocks:
        return dict(options)
    shape = options.get("gemma4")
    if shape is None:
        return {**options, "width": 256}
    wider = replace(
        shape, width=256, feed_forward=256, head_width=128, expert_width=256, sliding=(True, False, True, False),
        shared=min(shape.shared, 2), per_layer=64 if shape.per_layer else 0,
    )  # fmt: skip
    return {**options, "gemma4": wider}


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_greedy(
    tmp_path: Path, oracle: Oracle, kernels: CpuBackend, llama_source: Path, family: str, types: str
) -> None:
    architecture, vocabulary, options = FAMILIES[family]
    vocabulary_of = real_vocabulary if (family, types) in WHOLE else part_of
    words = vocabulary_of(llama_source / "models" / f"ggml-vocab-{vocabulary}.gguf")
    options = sizes(options, whole_blocks="K" in types) | TYPES[types]
    if "K" in types and "gemma4" in options:  # its rows have 64 values
        options["types"] = {"proj": "Q8_0", **options.get("types", {})}
    path = tiny_gguf(tmp_path / "tiny.gguf", architecture, words=words, change=calm, **options)
    expected = oracle.llama("greedy", path, prompts=list(PROMPTS), count=24, top=8)["prompts"]
    with open_gguf(path) as gguf:
        tokenizer = tokenizer_from_gguf(gguf)
        assert [tokenizer.encode(text) for text in PROMPTS] == [answer["prompt"] for answer in expected]
    assert len(expected[-1]["prompt"]) > 64
    answers = complete(path, [answer["prompt"] for answer in expected], 24, kernels)
    path.unlink()
    for found, answer in zip(answers, expected, strict=True):
        behind = parting(found.tokens, answer["tokens"], answer["steps"])
        if behind is None:
            assert found.tokens == answer["tokens"] and found.text == answer["text"]
        else:
            assert behind < NEAR_TIE


def parting(found: list[int], expected: list[int], steps: list[list[tuple[int, float]]]) -> float | None:
    """How far the first token that differs is behind llama.cpp's, by llama.cpp's own log probabilities; None when none
    does. `steps` has the likeliest tokens of each step with theirs."""
    for token, likeliest, step in zip(found, expected, steps, strict=False):
        if token != likeliest:
            return step[0][1] - next((score for other, score in step if other == token), -math.inf)
    return None
