"""smollm3: SmolLM3 (`general.architecture` = smollm3).

As llama, but for every fourth layer, which does not rotate queries and keys (Yang et al. 2025, arXiv 2501.18795).
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
from golem_host_chat.families.hparams import read_hparams, refuse_keys, require_whole_rope
from golem_host_chat.families.weights import Linear, Weights

UNROTATED_EVERY = 4
"""The last of each four layers rotates nothing; files do not say so."""


@dataclass(frozen=True)
class Block:
    rotates: bool
    attn_norm: Tensor
    q: Linear
    k: Linear
    v: Linear
    attn_output: Linear
    ffn_norm: Tensor
    gate: Linear
    up: Linear
    down: Linear


class SmolLM3(Family):
    architecture: ClassVar[str] = "smollm3"

    def __init__(self, gguf: Gguf) -> None:
        hp = self.hparams = read_hparams(gguf)
        refuse_keys(gguf, "expert_count")
        require_whole_rope(gguf, hp)
        weights = Weights(gguf)
        self.context_length = hp.context_length
        self.embedding_length = hp.width
        self.vocab_size = weights.vocab_size(hp.width)
        self._embeddings = weights.tensor("token_embd.weight", self.vocab_size, hp.width)
        self._blocks = [self._block(weights, i) for i in range(hp.layers)]
        self._output_norm = weights.tensor("output_norm.weight", hp.width)
        self._output = weights.head(self.vocab_size, hp.width)
        weights.warn_unused()

    def _block(self, weights: Weights, layer: int) -> Block:
        hp, name = self.hparams, f"blk.{layer}"
        q, k, v = weights.qkv(
            name, hp.heads * hp.key_dim, hp.kv_heads * hp.key_dim, hp.kv_heads * hp.value_dim, hp.width
        )
        return Block(
            rotates=(layer + 1) % UNROTATED_EVERY != 0,
            attn_norm=weights.tensor(f"{name}.attn_norm.weight", hp.width),
            q=q,
            k=k,
            v=v,
            attn_output=weights.linear(f"{name}.attn_output", hp.width, hp.heads * hp.value_dim),
            ffn_norm=weights.tensor(f"{name}.ffn_norm.weight", hp.width),
            gate=weights.linear(f"{name}.ffn_gate", hp.ff_width, hp.width),
            up=weights.linear(f"{name}.ffn_up", hp.ff_width, hp.width),
            down=weights.linear(f"{name}.ffn_down", hp.width, hp.ff_width),
        )

    def caches(self) -> list[CacheSpec]:
        hp = self.hparams
        return [CacheSpec(hp.kv_heads, hp.key_dim, hp.value_dim) for _ in self._blocks]

    def forward(self, batch: Batch) -> Ref:
        hp = self.hparams
        angles = ops.rope_angles(batch.positions, hp.rope_dims, base=hp.rope_base, scale=hp.rope_scale, yarn=hp.yarn)
        x = ops.rows(self._embeddings, batch.tokens)
        for i, (block, cache) in enumerate(zip(self._blocks, batch.caches, strict=True)):
            h = ops.rms_norm(x, block.attn_norm, hp.rms_eps)
            attended = self._attend(block, cache, h, angles, batch).named(f"attn_out-{i}")
            x = ops.add(x, attended)
            if block is self._blocks[-1]:  # the rest is wanted of the outputs alone
                x = ops.select(x, batch.outputs)
            h = ops.rms_norm(x, block.ffn_norm, hp.rms_eps)
            x = ops.add(x, block.down(ops.swiglu(block.gate(h), block.up(h)))).named(f"l_out-{i}")
        return self._output(ops.rms_norm(x, self._output_norm, hp.rms_eps).named("result_norm"))

    def _attend(self, block: Block, cache: Cache, h: Ref, angles: Ref, batch: Batch) -> Ref:
        hp = self.hparams
        q, k = block.q(h).reshape(hp.heads, hp.key_dim), block.k(h).reshape(hp.kv_heads, hp.key_dim)
        if block.rotates:
            q, k = ops.rope(q, angles, RopeStyle.NORM), ops.rope(k, angles, RopeStyle.NORM)
        ops.cache_store(cache, k, block.v(h), batch.slots, batch.positions)
        mixed = ops.attention(q, cache, batch.slots, batch.positions, scale=1 / math.sqrt(hp.key_dim))
        return block.attn_output(mixed)
