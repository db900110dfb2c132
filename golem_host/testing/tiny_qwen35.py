"""Tiny random GGUF checkpoints of qwen35 and qwen35moe: gated delta nets with full attention every few layers.

As `golem_host.testing.tiny`, which calls this for those architectures. No torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Matrix = Callable[..., np.ndarray]


@dataclass(frozen=True)
class Shape:
    """Sizes of a checkpoint. `state` is the width of a delta net's heads, `interval` the period of full layers;
    `experts` 0 is the dense family, `predictors` MTP blocks follow the `layers`; `fused` keeps experts' gate and up in
    one tensor.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    feed_forward: int
    key_heads: int = 2
    value_heads: int = 4
    state: int = 16
    taps: int = 4
    interval: int = 4
    experts: int = 0
    experts_used: int = 0
    predictors: int = 0
    fused: bool = False

    @property
    def rope_dims(self) -> int:
        """Half of a head, in whole pairs."""
        return self.head_width // 4 * 2

    def full(self, layer: int) -> bool:
        return layer >= self.layers or (layer + 1) % self.interval == 0


def keys_of(shape: Shape) -> dict[str, Any]:
    """Metadata beside that of every family, without the architecture's prefix."""
    pairs = shape.rope_dims // 2
    third = -(-pairs // 3)
    keys: dict[str, Any] = {
        "block_count": shape.layers + shape.predictors,
        "attention.key_length": shape.head_width,
        "attention.value_length": shape.head_width,
        "rope.freq_base": 1e7,
        "rope.dimension_count": shape.rope_dims,
        "rope.dimension_sections": [third, third, pairs - 2 * third, 0],
        "ssm.conv_kernel": shape.taps,
        "ssm.state_size": shape.state,
        "ssm.group_count": shape.key_heads,
        "ssm.time_step_rank": shape.value_heads,
        "ssm.inner_size": shape.value_heads * shape.state,
        "full_attention_interval": shape.interval,
    }
    if shape.predictors:
        keys["nextn_predict_layers"] = shape.predictors
    if shape.experts:
        keys |= {
            "expert_count": shape.experts,
            "expert_used_count": shape.experts_used,
            "expert_feed_forward_length": shape.feed_forward,
            "expert_shared_feed_forward_length": shape.feed_forward // 2,
        }
    return keys


def tensors_of(random: np.random.Generator, tokens: int, shape: Shape, *, tied: bool) -> dict[str, np.ndarray]:
    """Float32 tensors by name; matrices are (out, in). Rates and steps such that states live for a few tokens and for
    many."""
    width = shape.width

    def matrix(*size: int, gain: float = 1.0) -> np.ndarray:
        return (random.standard_normal(size) * gain / math.sqrt(size[-1])).astype(np.float32)

    def norm(size: int, mean: float = 1.0) -> np.ndarray:
        return (mean * (1 + 0.2 * random.standard_normal(size))).astype(np.float32)

    tensors = {"token_embd.weight": matrix(tokens, width)}
    for layer in range(shape.layers + shape.predictors):
        block = {"attn_norm.weight": norm(width), "post_attention_norm.weight": norm(width)}
        if shape.full(layer):
            block |= {
                "attn_q.weight": matrix(2 * shape.heads * shape.head_width, width, gain=1.5),
                "attn_k.weight": matrix(shape.kv_heads * shape.head_width, width, gain=1.5),
                "attn_v.weight": matrix(shape.kv_heads * shape.head_width, width),
                "attn_q_norm.weight": norm(shape.head_width, 1.5),
                "attn_k_norm.weight": norm(shape.head_width, 1.5),
                "attn_output.weight": matrix(width, shape.heads * shape.head_width, gain=3.0),
            }
        else:
            inner = shape.value_heads * shape.state
            channels = 2 * shape.key_heads * shape.state + inner
            block |= {
                "attn_qkv.weight": matrix(channels, width, gain=1.5),
                "attn_gate.weight": matrix(inner, width, gain=1.5),
                "ssm_conv1d.weight": matrix(channels, shape.taps, gain=1.5),
                "ssm_dt.bias": random.standard_normal(shape.value_heads).astype(np.float32),
                "ssm_a": -np.exp(random.standard_normal(shape.value_heads) - 1).astype(np.float32),
                "ssm_alpha.weight": matrix(shape.value_heads, width),
                "ssm_beta.weight": matrix(shape.value_heads, width, gain=2.0),
                "ssm_norm.weight": norm(shape.state),
                "ssm_out.weight": matrix(width, inner, gain=2.0),
            }
        block |= _mixture(matrix, shape) if shape.experts else _feed_forward(matrix, shape)
        if layer >= shape.layers:
            block |= {"nextn.eh_proj.weight": matrix(width, 2 * width)}
            block |= {f"nextn.{name}.weight": norm(width) for name in ("enorm", "hnorm", "shared_head_norm")}
        tensors |= {f"blk.{layer}.{name}": value for name, value in block.items()}
    tensors["output_norm.weight"] = norm(width, 4.0)
    if not tied:
        tensors["output.weight"] = matrix(tokens, width)
    return tensors


def _feed_forward(matrix: Matrix, shape: Shape) -> dict[str, np.ndarray]:
    return {
        "ffn_gate.weight": matrix(shape.feed_forward, shape.width),
        "ffn_up.weight": matrix(shape.feed_forward, shape.width),
        "ffn_down.weight": matrix(shape.width, shape.feed_forward, gain=2.0),
    }


def _mixture(matrix: Matrix, shape: Shape) -> dict[str, np.ndarray]:
    count, inner, shared, width = shape.experts, shape.feed_forward, shape.feed_forward // 2, shape.width
    tensors = {
        "ffn_gate_inp.weight": matrix(count, width, gain=2.0),
        "ffn_down_exps.weight": matrix(count, width, inner, gain=2.0),
        "ffn_gate_inp_shexp.weight": matrix(width),
        "ffn_gate_shexp.weight": matrix(shared, width),
        "ffn_up_shexp.weight": matrix(shared, width),
        "ffn_down_shexp.weight": matrix(width, shared, gain=2.0),
    }
    halves = [matrix(count, inner, width) for _ in range(2)]
    if shape.fused:
        return tensors | {"ffn_gate_up_exps.weight": np.concatenate(halves, 1)}
    return tensors | dict(zip(("ffn_gate_exps.weight", "ffn_up_exps.weight"), halves, strict=True))
