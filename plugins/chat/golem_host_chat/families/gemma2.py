"""gemma2: Gemma 2 (`general.architecture` = gemma2).

Sliding and full layers in turn; attention scores and logits are soft-capped; norms before and after both halves of a
block; GeGLU; embeddings scaled by the root of the width (Gemma Team 2024). Norm weights are stored with their one
added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from golem_host import ops
from golem_host.ops import Cache, Ref, RopeStyle
from golem_host.weights.gguf import Gguf
from golem_host.weights.tensor import Tensor
from golem_host_chat.families.base import Batch, CacheSpec, Family
from golem_host_chat.families.hparams import read_hparams, read_rope_base, read_softcap, read_windows
from golem_host_chat.families.weights import Linear, Weights

LAYERS_27B = 46
"""The 27B model alone scales queries by its width per head, not by its head size."""


@dataclass(frozen=True)
class Block:
    window: int
    attn_norm: Tensor
    q: Linear
    k: Linear
    v: Linear
    attn_output: Linear
    post_attention_norm: Tensor
    ffn_norm: Tensor
    gate: Linear
    up: Linear
    down: Linear
    post_ffw_norm: Tensor


class Gemma2(Family):
    architecture: ClassVar[str] = "gemma2"

    def __init__(self, gguf: Gguf) -> None:
        hp = self.hparams = read_hparams(gguf)
        weights = Weights(gguf)
        self.context_length = hp.context_length
        self.embedding_length = hp.width
        self.vocab_size = weights.vocab_size(hp.width)
        self._sliding_base = read_rope_base(gguf, "freq_base_swa", hp.rope_base)
        self._score_cap = read_softcap(gguf, "attn_logit_softcapping", 50.0)
        self._logit_cap = read_softcap(gguf, "final_logit_softcapping", 30.0)
        per_head = hp.width // hp.heads if hp.layers == LAYERS_27B else hp.key_dim
        self._query_scale = 1 / math.sqrt(per_head)
        self._embeddings = weights.tensor("token_embd.weight", self.vocab_size, hp.width)
        windows = read_windows(gguf, hp.layers, window=4096, period=2)
        self._blocks = [self._block(weights, f"blk.{i}", windows[i]) for i in range(hp.layers)]
        self._output_norm = weights.tensor("output_norm.weight", hp.width)
        self._output = weights.head(self.vocab_size, hp.width)
        weights.warn_unused()

    def _block(self, weights: Weights, name: str, window: int) -> Block:
        hp = self.hparams
        q, k, v = weights.qkv(
            name, hp.heads * hp.key_dim, hp.kv_heads * hp.key_dim, hp.kv_heads * hp.value_dim, hp.width
        )
        return Block(
            window=window,
            attn_norm=weights.tensor(f"{name}.attn_norm.weight", hp.width),
            q=q,
            k=k,
            v=v,
            attn_output=weights.linear(f"{name}.attn_output", hp.width, hp.heads * hp.value_dim),
            post_attention_norm=weights.tensor(f"{name}.post_attention_norm.weight", hp.width),
            ffn_norm=weights.tensor(f"{name}.ffn_norm.weight", hp.width),
            gate=weights.linear(f"{name}.ffn_gate", hp.ff_width, hp.width),
            up=weights.linear(f"{name}.ffn_up", hp.ff_width, hp.width),
            down=weights.linear(f"{name}.ffn_down", hp.width, hp.ff_width),
            post_ffw_norm=weights.tensor(f"{name}.post_ffw_norm.weight", hp.width),
        )

    def caches(self) -> list[CacheSpec]:
        hp = self.hparams
        return [CacheSpec(hp.kv_heads, hp.key_dim, hp.value_dim, block.window) for block in self._blocks]

    def forward(self, batch: Batch) -> Ref:
        hp = self.hparams
        full = ops.rope_angles(batch.positions, hp.rope_dims, base=hp.rope_base, scale=hp.rope_scale, yarn=hp.yarn)
        sliding = ops.rope_angles(
            batch.positions, hp.rope_dims, base=self._sliding_base, scale=hp.rope_scale, yarn=hp.yarn
        )
        x = ops.scale(ops.rows(self._embeddings, batch.tokens), math.sqrt(hp.width))
        for i, (block, cache) in enumerate(zip(self._blocks, batch.caches, strict=True)):
            h = ops.rms_norm(x, block.attn_norm, hp.rms_eps)
            attended = self._attend(block, cache, h, sliding if block.window else full, batch).named(f"attn_out-{i}")
            x = ops.add(x, ops.rms_norm(attended, block.post_attention_norm, hp.rms_eps))
            if block is self._blocks[-1]:  # the rest is wanted of the outputs alone
                x = ops.select(x, batch.outputs)
            h = ops.rms_norm(x, block.ffn_norm, hp.rms_eps)
            h = block.down(ops.geglu(block.gate(h), block.up(h)))
            x = ops.add(x, ops.rms_norm(h, block.post_ffw_norm, hp.rms_eps)).named(f"l_out-{i}")
        logits = self._output(ops.rms_norm(x, self._output_norm, hp.rms_eps).named("result_norm"))
        return ops.softcap(logits, self._logit_cap) if self._logit_cap else logits

    def _attend(self, block: Block, cache: Cache, h: Ref, angles: Ref, batch: Batch) -> Ref:
        hp = self.hparams
        q = ops.rope(block.q(h).reshape(hp.heads, hp.key_dim), angles, RopeStyle.NEOX)
        k = ops.rope(block.k(h).reshape(hp.kv_heads, hp.key_dim), angles, RopeStyle.NEOX)
        ops.cache_store(cache, k, block.v(h), batch.slots, batch.positions)
        mixed = ops.attention(
            ops.scale(q, self._query_scale),
            cache,
            batch.slots,
            batch.positions,
            scale=1.0,
            window=block.window,
            softcap=self._score_cap,
        )
        return block.attn_output(mixed)
