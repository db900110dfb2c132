"""A tiny random nomic-bert-moe of true structure, as a GGUF file, which llama.cpp loads too.

Needs the `gguf` package and numpy (extra `test`); no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from golem_host.testing.charsmap import charsmap
from golem_host.testing.encoder_weights import (
    ENDINGS,
    LETTERS,
    MARKS,
    WORDS,
    EncoderWeights,
    Tensors,
    encoder_keys,
    encoder_tokenizer_keys,
)
from golem_host.testing.tiny import write_gguf


def tiny_nomic_gguf(
    path: str | Path,
    *,
    seed: int = 0,
    layers: int = 4,
    width: int = 64,
    ff_width: int = 96,
    heads: int = 4,
    experts: int = 8,
    experts_used: int = 2,
    context: int = 128,
    pooling: int | None = 1,
    quantization: str = "F32",
    types: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """A `nomic-bert-moe` file: every second layer is a mixture, the tokenizer Unigram with a character map."""
    random = EncoderWeights(seed, width)
    tokens, scores, kinds = _unigram_pieces()
    tensors: Tensors = {
        "token_embd.weight": random.matrix(len(tokens), width),
        "token_types.weight": random.matrix(1, width, 0.5),
        **random.norm("token_embd_norm"),
    }
    for layer in range(layers):
        name = f"blk.{layer}"
        tensors |= random.linear(f"{name}.attn_qkv", 3 * width, width)
        tensors |= random.linear(f"{name}.attn_output", width, width)
        tensors |= random.norm(f"{name}.attn_output_norm")
        if layer % 2:
            tensors[f"{name}.ffn_gate_inp.weight"] = random.matrix(experts, width, 2.0)
            tensors[f"{name}.ffn_up_exps.weight"] = random.stack(experts, ff_width, width)
            tensors[f"{name}.ffn_down_exps.weight"] = random.stack(experts, width, ff_width)
        else:
            tensors |= random.linear(f"{name}.ffn_up", ff_width, width)
            tensors |= random.linear(f"{name}.ffn_down", width, ff_width)
        tensors |= random.norm(f"{name}.layer_output_norm")
    keys = encoder_keys("nomic-bert-moe", layers, width, ff_width, heads, context, pooling, 1e-5)
    keys |= {
        "nomic-bert-moe.rope.freq_base": 10000.0,
        "nomic-bert-moe.moe_every_n_layers": 2,
        "nomic-bert-moe.expert_count": experts,
        "nomic-bert-moe.expert_used_count": experts_used,
    }
    keys |= encoder_tokenizer_keys(
        model="t5",
        pre="default",
        tokens=tokens,
        scores=scores,
        token_type=kinds,
        token_type_count=1,
        add_space_prefix=True,
        remove_extra_whitespaces=True,
        precompiled_charsmap=charsmap({"\u2460": "1", "\u00e9": "e", "e\u0301": "e", "\t": " ", "\n": " "}),
        bos_token_id=0,
        padding_token_id=1,
        eos_token_id=2,
        seperator_token_id=2,
        unknown_token_id=3,
        add_bos_token=True,
        add_eos_token=True,
    )
    small = {"token_types": "F32", **(types or {})}
    return write_gguf(
        Path(path), "nomic-bert-moe", keys | dict(metadata or {}), tensors, quantization, small, random=random.generator
    )  # fmt: skip


def _unigram_pieces() -> tuple[list[str], list[float], list[int]]:
    """Tokens, scores and types."""
    heads = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = ["\u2581", *(f"\u2581{word}" for word in WORDS), *ENDINGS, *LETTERS, *MARKS, "\u4f60", "\u597d"]
    scores = [0.0] * 4 + [-2.0 - 0.25 * rank for rank in range(len(pieces))]
    return [*heads, *pieces, "<mask>"], [*scores, 0.0], [3, 3, 3, 2, *[1] * len(pieces), 3]
