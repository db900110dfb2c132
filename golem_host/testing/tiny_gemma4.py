"""Tiny random Gemma 4 checkpoints: those of E2B and E4B, of 12B and 31B, and of 26B-A4B. No torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Gemma4Shape:
    """Sizes of a checkpoint, E2B's structure unless told otherwise.

    Heads have `head_width` values in full layers, half of them in sliding ones. `sliding` says of each layer whether it
    sees only a `window`; the last `shared` read keys and values of earlier ones and have a feed-forward twice as wide.
    `keys_as_values`: full layers have no values of their own. `experts` of `expert_width`, 0 for none, are `used` at a
    time; `fused` keeps gate and up in one tensor.
    """

    sliding: tuple[bool, ...] = (True, True, False, True, False, True, False)
    shared: int = 2
    width: int = 64
    heads: int = 4
    kv_heads: int = 2
    full_kv_heads: int = 2
    head_width: int = 32
    feed_forward: int = 128
    per_layer: int = 32
    window: int = 32
    context: int = 512
    tied: bool = True
    keys_as_values: bool = False
    experts: int = 0
    used: int = 3
    expert_width: int = 32
    fused: bool = True

    def head(self, at: int) -> int:
        return self.head_width // (2 if self.sliding[at] else 1)

    def kv(self, at: int) -> int:
        return self.kv_heads if self.sliding[at] else self.full_kv_heads

    def inner(self, at: int) -> int:
        return self.feed_forward * (1 if self.owns(at) else 2)

    def owns(self, at: int) -> bool:
        return at < len(self.sliding) - self.shared


DENSE = Gemma4Shape(shared=0, per_layer=0, full_kv_heads=1, keys_as_values=True)
"""The structure of 12B and 31B."""
MIXTURE = Gemma4Shape(shared=0, per_layer=0, full_kv_heads=1, keys_as_values=True, experts=8)
"""The structure of 26B-A4B."""


def gemma4_keys(shape: Gemma4Shape) -> dict[str, Any]:
    """The metadata, without the prefix `gemma4.`; what differs between layers is an array, as in real files."""
    layers = range(len(shape.sliding))
    inner = [shape.inner(at) for at in layers]
    keys: dict[str, Any] = {
        "context_length": shape.context,
        "embedding_length": shape.width,
        "embedding_length_per_layer_input": shape.per_layer,
        "block_count": len(layers),
        "feed_forward_length": inner if shape.shared else shape.feed_forward,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": [shape.kv(at) for at in layers],
        "attention.key_length": shape.head_width,
        "attention.value_length": shape.head_width,
        "attention.key_length_swa": shape.head_width // 2,
        "attention.value_length_swa": shape.head_width // 2,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.sliding_window": shape.window,
        "attention.sliding_window_pattern": list(shape.sliding),
        "attention.shared_kv_layers": shape.shared,
        "rope.dimension_count": shape.head_width,
        "rope.dimension_count_swa": shape.head_width // 2,
        "rope.freq_base": 1e6,
        "rope.freq_base_swa": 1e4,
        "final_logit_softcapping": 30.0,
    }
    if shape.experts:
        keys |= {
            "expert_count": shape.experts,
            "expert_used_count": shape.used,
            "expert_feed_forward_length": shape.expert_width,
        }
    return keys


def gemma4_tensors(random: np.random.Generator, tokens: int, shape: Gemma4Shape) -> dict[str, np.ndarray]:
    """Float32 tensors by name; matrices are (out, in). Scales as in `golem_host.testing.tiny`."""
    layers, width = len(shape.sliding), shape.width

    def matrix(*rows_columns: int, gain: float = 1.0) -> np.ndarray:
        values = random.standard_normal(rows_columns) * gain / math.sqrt(rows_columns[-1])
        return values.astype(np.float32)

    def norm(size: int, mean: float = 1.0) -> np.ndarray:
        return (mean * (1 + 0.2 * random.standard_normal(size))).astype(np.float32)

    def block(at: int) -> dict[str, np.ndarray]:
        head, inner = shape.head(at), shape.inner(at)
        found = {
            "attn_norm": norm(width),
            "attn_q": matrix(shape.heads * head, width),
            "attn_q_norm": norm(head, 1.5 / math.sqrt(head)),  # scores are not divided by the root of the head width
            "attn_output": matrix(width, shape.heads * head, gain=2.0),
            "post_attention_norm": norm(width),
            "ffn_norm": norm(width),
            "ffn_gate": matrix(inner, width),
            "ffn_up": matrix(inner, width),
            "ffn_down": matrix(width, inner, gain=2.0),
            "post_ffw_norm": norm(width),
            "layer_output_scale": np.array([0.9], np.float32),
        }
        if shape.owns(at):
            found["attn_k"] = matrix(shape.kv(at) * head, width)
            found["attn_k_norm"] = norm(head, 1.5)
            if shape.sliding[at] or not shape.keys_as_values:
                found["attn_v"] = matrix(shape.kv(at) * head, width)
        if shape.per_layer:
            found["inp_gate"] = matrix(shape.per_layer, width)
            found["proj"] = matrix(width, shape.per_layer)
            found["post_norm"] = norm(width)
        if shape.experts:
            found["ffn_gate_inp"] = matrix(shape.experts, width, gain=2.0)
            found["ffn_gate_inp.scale"] = norm(width, math.sqrt(width))
            found |= {name: norm(width) for name in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2")}
            halves = [matrix(shape.experts, shape.expert_width, width) for _ in range(2)]
            if shape.fused:
                found["ffn_gate_up_exps"] = np.concatenate(halves, 1)
            else:
                found["ffn_gate_exps"], found["ffn_up_exps"] = halves
            found["ffn_down_exps"] = matrix(shape.experts, width, shape.expert_width, gain=2.0)
            found["ffn_down_exps.scale"] = norm(shape.experts)
        return {name if name.endswith(".scale") else f"{name}.weight": value for name, value in found.items()}

    tensors = {"token_embd.weight": matrix(tokens, width, gain=0.3)}
    if shape.per_layer:
        tensors["per_layer_token_embd.weight"] = matrix(
            tokens, shape.per_layer * layers, gain=math.sqrt(layers)
        )  # of deviation 1 once multiplied by the root of per_layer
        tensors["per_layer_model_proj.weight"] = matrix(shape.per_layer * layers, width)
        tensors["per_layer_proj_norm.weight"] = norm(shape.per_layer)
    factors = np.full(shape.head_width // 2, 1e30, np.float32)
    factors[: shape.head_width // 8] = 1.0
    tensors["rope_freqs.weight"] = factors
    for at in range(layers):
        tensors |= {f"blk.{at}.{name}": value for name, value in block(at).items()}
    tensors["output_norm.weight"] = norm(width, 12.0)
    if not shape.tied:
        tensors["output.weight"] = matrix(tokens, width, gain=0.3)
    return tensors
