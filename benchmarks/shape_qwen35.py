"""Shapes of qwen35 and qwen35moe: gated delta nets, and full attention in every fourth layer.

Keys and tensor names: llama.cpp's src/models/qwen35.cpp and qwen35moe.cpp. What steers a delta net (decay, step) stays
in float32, as converters leave it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from shape_families import Experts, Mix, Shape, TensorShape, metadata_of, random_matrix, random_norm
from shape_vocabulary import qwen3_vocabulary

TAPS, INTERVAL = 4, 4


@dataclass(frozen=True)
class Hybrid:
    """Sizes of a checkpoint. `state` is the width of a delta net's heads; a mixture has a shared expert of
    `feed_forward` beside `experts`.
    """

    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    key_heads: int
    value_heads: int
    head_width: int = 256
    state: int = 128
    tokens: int = 248320
    tied: bool = True
    experts: Experts | None = None

    def __call__(self, mix: Mix) -> Shape:
        """The checkpoint as `mix` quantizes it."""
        architecture = "qwen35moe" if self.experts else "qwen35"
        keys: dict[str, Any] = {
            "context_length": 262144,
            "embedding_length": self.width,
            "block_count": self.layers,
            "feed_forward_length": self.feed_forward,
            "attention.head_count": self.heads,
            "attention.head_count_kv": self.kv_heads,
            "attention.key_length": self.head_width,
            "attention.value_length": self.head_width,
            "attention.layer_norm_rms_epsilon": 1e-6,
            "rope.freq_base": 1e7,
            "rope.dimension_count": self.head_width // 4,
            "rope.dimension_sections": np.array([11, 11, 10, 0], np.int32),
            "ssm.conv_kernel": TAPS,
            "ssm.state_size": self.state,
            "ssm.group_count": self.key_heads,
            "ssm.time_step_rank": self.value_heads,
            "ssm.inner_size": self.value_heads * self.state,
            "full_attention_interval": INTERVAL,
        }
        if self.experts:
            keys |= {
                "expert_count": self.experts.count,
                "expert_used_count": self.experts.used,
                "expert_feed_forward_length": self.experts.feed_forward,
                "expert_shared_feed_forward_length": self.feed_forward,
            }
        table = random_matrix("token_embd", (self.width, self.tokens), mix.kind("token_embd", 0, self.layers))
        tensors = [table, random_norm("output_norm", self.width, 4.0)]
        if not self.tied:
            tensors.append(random_matrix("output", (self.width, self.tokens), mix.kind("output", 0, self.layers)))
        for at in range(self.layers):
            tensors += self._block(mix, at)
        return Shape(metadata_of(architecture, keys, mix), tensors, qwen3_vocabulary(self.tokens))

    def _block(self, mix: Mix, at: int) -> Iterator[TensorShape]:
        name, width = f"blk.{at}", self.width

        def matrix(role: str, *dims: int, gain: float = 1.0) -> TensorShape:
            return random_matrix(f"{name}.{role}", dims, mix.kind(role, at, self.layers), gain)

        yield random_norm(f"{name}.attn_norm", width)
        yield random_norm(f"{name}.post_attention_norm", width)
        if (at + 1) % INTERVAL == 0:
            queries, keys = self.heads * self.head_width, self.kv_heads * self.head_width
            yield matrix("attn_q", width, 2 * queries, gain=1.5)
            yield matrix("attn_k", width, keys, gain=1.5)
            yield matrix("attn_v", width, keys)
            yield matrix("attn_output", queries, width, gain=2)
            yield random_norm(f"{name}.attn_q_norm", self.head_width, 1.5)
            yield random_norm(f"{name}.attn_k_norm", self.head_width, 1.5)
        else:
            yield from self._delta_net(name, matrix)
        inner = self.feed_forward
        if self.experts:
            count, each = self.experts.count, self.experts.feed_forward
            yield random_matrix(f"{name}.ffn_gate_inp", (width, count), "F32")
            yield matrix("ffn_gate_exps", width, each, count)
            yield matrix("ffn_up_exps", width, each, count)
            yield matrix("ffn_down_exps", each, width, count, gain=2)
            yield TensorShape(f"{name}.ffn_gate_inp_shexp.weight", (width,), "F32", width**-0.5)
            yield matrix("ffn_gate_shexp", width, inner)
            yield matrix("ffn_up_shexp", width, inner)
            yield matrix("ffn_down_shexp", inner, width, gain=2)
        else:
            yield matrix("ffn_gate", width, inner)
            yield matrix("ffn_up", width, inner)
            yield matrix("ffn_down", inner, width, gain=2)

    def _delta_net(self, name: str, matrix: Any) -> Iterator[TensorShape]:
        width, inner = self.width, self.value_heads * self.state
        channels = 2 * self.key_heads * self.state + inner
        yield matrix("attn_qkv", width, channels, gain=1.5)
        yield matrix("attn_gate", width, inner)
        yield TensorShape(f"{name}.ssm_conv1d.weight", (TAPS, channels), "F32", 0.7)
        yield TensorShape(f"{name}.ssm_dt.bias", (self.value_heads,), "F32", 1.0)
        yield TensorShape(f"{name}.ssm_a", (self.value_heads,), "F32", 0.1, mean=-0.5)
        yield random_matrix(f"{name}.ssm_alpha", (width, self.value_heads), "F32")
        yield random_matrix(f"{name}.ssm_beta", (width, self.value_heads), "F32")
        yield random_norm(f"{name}.ssm_norm", self.state)
        yield matrix("ssm_out", inner, width, gain=2)
