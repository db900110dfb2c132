"""Shapes of dense families that differ in few things: llama, mistral3, smollm3, qwen2, gemma2 and gemma3.

Keys and tensor names: llama.cpp's src/models/{llama,mistral3,smollm3,qwen2,gemma2,gemma3}.cpp. Types are mixed as
`shape_families.Mix` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from shape_families import Experts, Mix, Shape, TensorShape, metadata_of, random_matrix, random_norm
from shape_vocabulary import gemma4_vocabulary, qwen3_vocabulary


@dataclass(frozen=True)
class Dense:
    """Sizes of a checkpoint. `window`: of its sliding layers, where it has any; `biases`: of queries, keys and values;
    `post_norms`: behind both halves of a block, as Gemma has them; `head_norms`: of each query and key.
    """

    architecture: str
    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_width: int
    tokens: int
    context: int = 32768
    rope_base: float = 1e6
    window: int = 0
    tied: bool = True
    biases: bool = False
    post_norms: bool = False
    head_norms: bool = False
    rope_factors: bool = False
    experts: Experts | None = None

    def __call__(self, mix: Mix) -> Shape:
        """The checkpoint as `mix` quantizes it."""
        keys = {
            "context_length": self.context,
            "embedding_length": self.width,
            "block_count": self.layers,
            "feed_forward_length": self.feed_forward,
            "attention.head_count": self.heads,
            "attention.head_count_kv": self.kv_heads,
            "attention.key_length": self.head_width,
            "attention.value_length": self.head_width,
            "attention.layer_norm_rms_epsilon": 1e-6,
            "rope.freq_base": self.rope_base,
            "rope.dimension_count": self.head_width,
            "vocab_size": self.tokens,
        } | self._own_keys()
        table = random_matrix("token_embd", (self.width, self.tokens), mix.kind("token_embd", 0, self.layers))
        tensors = [table, random_norm("output_norm", self.width, 4.0)]
        if not self.tied:
            kind = mix.kind("output", 0, self.layers)
            tensors.append(random_matrix("output", (self.width, self.tokens), kind))
        if self.rope_factors:
            factors = np.geomspace(1, 32, self.head_width // 2).astype(np.float32)
            tensors.append(TensorShape("rope_freqs.weight", (len(factors),), "F32", 0.0, values=factors))
        for at in range(self.layers):
            tensors += self._block(mix, at)
        gemma = self.architecture.startswith("gemma")
        words = gemma4_vocabulary(self.tokens) if gemma else qwen3_vocabulary(self.tokens)
        return Shape(metadata_of(self.architecture, keys, mix), tensors, words)

    def _own_keys(self) -> dict[str, Any]:
        keys: dict[str, Any] = {}
        if self.window:
            keys["attention.sliding_window"] = self.window
        if self.architecture == "gemma2":
            keys |= {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
        if self.experts:
            keys |= {"expert_count": self.experts.count, "expert_used_count": self.experts.used}
        return keys

    def _block(self, mix: Mix, at: int) -> Iterator[TensorShape]:
        name, width = f"blk.{at}", self.width
        queries, keys = self.heads * self.head_width, self.kv_heads * self.head_width

        def matrix(role: str, *dims: int, gain: float = 1.0) -> TensorShape:
            return random_matrix(f"{name}.{role}", dims, mix.kind(role, at, self.layers), gain)

        norms = {"attn_norm": width, "ffn_norm": width}
        if self.post_norms:
            norms |= {"post_attention_norm": width, "post_ffw_norm": width}
        if self.head_norms:
            norms |= {"attn_q_norm": self.head_width, "attn_k_norm": self.head_width}
        for role, size in norms.items():
            yield random_norm(f"{name}.{role}", size)
        yield matrix("attn_q", width, queries, gain=1.5)
        yield matrix("attn_k", width, keys, gain=1.5)
        yield matrix("attn_v", width, keys)
        yield matrix("attn_output", queries, width, gain=2)
        if self.biases:
            for role, size in (("attn_q", queries), ("attn_k", keys), ("attn_v", keys)):
                yield TensorShape(f"{name}.{role}.bias", (size,), "F32", 0.2)
        inner = self.feed_forward
        if self.experts:
            count = self.experts.count
            yield random_matrix(f"{name}.ffn_gate_inp", (width, count), "F32")
            yield matrix("ffn_gate_exps", width, inner, count)
            yield matrix("ffn_up_exps", width, inner, count)
            yield matrix("ffn_down_exps", inner, width, count, gain=2)
        else:
            yield matrix("ffn_gate", width, inner)
            yield matrix("ffn_up", width, inner)
            yield matrix("ffn_down", inner, width, gain=2)
