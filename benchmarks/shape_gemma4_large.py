"""Shapes of the Gemma 4 models without per-layer embeddings: 12B, 31B, and 26B-A4B with experts beside its dense half.

Keys and tensor names: llama.cpp's src/models/gemma4.cpp. Full layers take their values from the keys' projection.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shape_families import Experts, Mix, Shape, TensorShape, metadata_of, random_matrix, random_norm
from shape_vocabulary import gemma4_vocabulary

PERIOD = 6
"""Of the layers, of which the last sees everything."""


@dataclass(frozen=True)
class LargeGemma4:
    """Sizes of a checkpoint. Sliding layers have `kv_heads` of half of `head_width`, full ones `full_kv_heads`."""

    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    full_kv_heads: int
    head_width: int = 512
    window: int = 1024
    tokens: int = 262144
    experts: Experts | None = None

    def __call__(self, mix: Mix) -> Shape:
        """The checkpoint as `mix` quantizes it."""
        sliding = [at % PERIOD != PERIOD - 1 for at in range(self.layers)]
        kv_heads = [self.kv_heads if each else self.full_kv_heads for each in sliding]
        keys = {
            "context_length": 262144,
            "embedding_length": self.width,
            "embedding_length_per_layer_input": 0,
            "block_count": self.layers,
            "feed_forward_length": self.feed_forward,
            "attention.head_count": self.heads,
            "attention.head_count_kv": np.array(kv_heads, np.int32),
            "attention.key_length": self.head_width,
            "attention.value_length": self.head_width,
            "attention.key_length_swa": self.head_width // 2,
            "attention.value_length_swa": self.head_width // 2,
            "attention.layer_norm_rms_epsilon": 1e-6,
            "attention.sliding_window": self.window,
            "attention.sliding_window_pattern": np.array(sliding),
            "attention.shared_kv_layers": 0,
            "rope.dimension_count": self.head_width,
            "rope.dimension_count_swa": self.head_width // 2,
            "rope.freq_base": 1e6,
            "rope.freq_base_swa": 1e4,
            "final_logit_softcapping": 30.0,
        }
        if self.experts:
            keys |= {
                "expert_count": self.experts.count,
                "expert_used_count": self.experts.used,
                "expert_feed_forward_length": self.experts.feed_forward,
            }
        unturned = np.full(self.head_width // 2, 1e30, np.float32)
        unturned[: self.head_width // 8] = 1.0
        table = random_matrix("token_embd", (self.width, self.tokens), mix.kind("token_embd", 0, self.layers), 0.3)
        tensors = [
            table,
            random_norm("output_norm", self.width, 12.0),
            TensorShape("rope_freqs.weight", (len(unturned),), "F32", 0.0, values=unturned),
        ]
        for at in range(self.layers):
            tensors += self._block(mix, at, sliding[at], kv_heads[at])
        return Shape(metadata_of("gemma4", keys, mix), tensors, gemma4_vocabulary(self.tokens))

    def _block(self, mix: Mix, at: int, sliding: bool, kv_heads: int) -> Iterator[TensorShape]:
        name, width = f"blk.{at}", self.width
        head = self.head_width // 2 if sliding else self.head_width

        def matrix(role: str, *dims: int) -> TensorShape:
            return random_matrix(f"{name}.{role}", dims, mix.kind(role, at, self.layers))

        for norm in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            yield random_norm(f"{name}.{norm}", width)
        # Scores are not divided by the root of the head width.
        yield random_norm(f"{name}.attn_q_norm", head, 0.35)
        yield random_norm(f"{name}.attn_k_norm", head, 0.35)
        yield TensorShape(f"{name}.layer_output_scale.weight", (1,), "F32", 0.0, mean=0.9)
        yield matrix("attn_q", width, self.heads * head)
        yield matrix("attn_k", width, kv_heads * head)
        if sliding:
            yield matrix("attn_v", width, kv_heads * head)
        yield matrix("attn_output", self.heads * head, width)
        yield matrix("ffn_gate", width, self.feed_forward)
        yield matrix("ffn_up", width, self.feed_forward)
        yield matrix("ffn_down", self.feed_forward, width)
        if self.experts:
            inner, count = self.experts.feed_forward, self.experts.count
            for norm in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"):
                yield random_norm(f"{name}.{norm}", width)
            yield random_matrix(f"{name}.ffn_gate_inp", (width, count), "F32")
            yield TensorShape(f"{name}.ffn_gate_inp.scale", (width,), "F32", 0.2, mean=1.0)
            yield matrix("ffn_gate_up_exps", width, 2 * inner, count)
            yield matrix("ffn_down_exps", inner, width, count)
            yield TensorShape(f"{name}.ffn_down_exps.scale", (count,), "F32", 0.2, mean=1.0)
