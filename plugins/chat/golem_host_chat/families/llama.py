"""llama: Llama 2 and 3, Mistral, Mixtral, SmolLM2 (`general.architecture` = llama).

Pre-norm decoder with grouped-query attention and SwiGLU (Touvron et al. 2023), in Mixtral (Jiang et al. 2024) with an
expert mixture for each feed-forward. Query and key rows are stored so that rotary pairs are neighbours (NORM style).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from golem_host import ops
from golem_host.ops import Cache, Ref, RopeStyle, Weighting
from golem_host.weights.gguf import Gguf
from golem_host.weights.tensor import Tensor
from golem_host_chat.families.base import Batch, CacheSpec, Family
from golem_host_chat.families.hparams import Experts, read_experts, read_hparams, refuse_keys, require_whole_rope
from golem_host_chat.families.weights import Linear, Weights


@dataclass(frozen=True)
class Dense:
    gate: Linear
    up: Linear
    down: Linear

    def __call__(self, h: Ref) -> Ref:
        return self.down(ops.swiglu(self.gate(h), self.up(h)))


@dataclass(frozen=True)
class Mixture:
    used: int
    router: Linear
    gate: Tensor
    up: Tensor
    down: Tensor

    def __call__(self, h: Ref) -> Ref:
        routes = ops.route(self.router(h), self.used, Weighting.SOFTMAX_CHOSEN)
        gate, up = (ops.expert_linear(h, routes, each) for each in (self.gate, self.up))
        return ops.mix(ops.expert_linear(ops.swiglu(gate, up), routes, self.down), routes)


@dataclass(frozen=True)
class Block:
    attn_norm: Tensor
    q: Linear
    k: Linear
    v: Linear
    attn_output: Linear
    ffn_norm: Tensor
    feed_forward: Dense | Mixture


class Llama(Family):
    architecture: ClassVar[str] = "llama"

    def __init__(self, gguf: Gguf) -> None:
        hp = self.hparams = read_hparams(gguf)
        self.experts = read_experts(gguf, hp.ff_width) if gguf.u32("llama.expert_count", 0) else None
        refuse_keys(gguf, "expert_shared_count", "expert_shared_feed_forward_length", "expert_weights_scale")
        require_whole_rope(gguf, hp)
        weights = Weights(gguf)
        self.context_length = hp.context_length
        self.embedding_length = hp.width
        self.vocab_size = weights.vocab_size(hp.width)
        self._embeddings = weights.tensor("token_embd.weight", self.vocab_size, hp.width)
        self._rope_factors = weights.optional("rope_freqs.weight", hp.key_dim // 2)
        self._blocks = [self._block(weights, f"blk.{i}") for i in range(hp.layers)]
        self._output_norm = weights.tensor("output_norm.weight", hp.width)
        self._output = weights.head(self.vocab_size, hp.width)
        weights.warn_unused()

    def _block(self, weights: Weights, name: str) -> Block:
        hp = self.hparams
        q, k, v = weights.qkv(
            name, hp.heads * hp.key_dim, hp.kv_heads * hp.key_dim, hp.kv_heads * hp.value_dim, hp.width
        )
        return Block(
            attn_norm=weights.tensor(f"{name}.attn_norm.weight", hp.width),
            q=q,
            k=k,
            v=v,
            attn_output=weights.linear(f"{name}.attn_output", hp.width, hp.heads * hp.value_dim),
            ffn_norm=weights.tensor(f"{name}.ffn_norm.weight", hp.width),
            feed_forward=self._mixture(weights, name, self.experts) if self.experts else self._dense(weights, name),
        )

    def _dense(self, weights: Weights, name: str) -> Dense:
        width, inner = self.hparams.width, self.hparams.ff_width
        return Dense(
            gate=weights.linear(f"{name}.ffn_gate", inner, width),
            up=weights.linear(f"{name}.ffn_up", inner, width),
            down=weights.linear(f"{name}.ffn_down", width, inner),
        )

    def _mixture(self, weights: Weights, name: str, experts: Experts) -> Mixture:
        width, inner = self.hparams.width, self.hparams.ff_width  # of each expert, not of all
        return Mixture(
            used=experts.used,
            router=weights.linear(f"{name}.ffn_gate_inp", experts.count, width),
            gate=weights.experts(f"{name}.ffn_gate_exps", experts.count, inner, width),
            up=weights.experts(f"{name}.ffn_up_exps", experts.count, inner, width),
            down=weights.experts(f"{name}.ffn_down_exps", experts.count, width, inner),
        )

    def caches(self) -> list[CacheSpec]:
        hp = self.hparams
        return [CacheSpec(hp.kv_heads, hp.key_dim, hp.value_dim) for _ in self._blocks]

    def forward(self, batch: Batch) -> Ref:
        hp = self.hparams
        angles = ops.rope_angles(
            batch.positions,
            hp.rope_dims,
            base=hp.rope_base,
            scale=hp.rope_scale,
            factors=self._rope_factors,
            yarn=hp.yarn,
        )
        x = ops.rows(self._embeddings, batch.tokens)
        for i, (block, cache) in enumerate(zip(self._blocks, batch.caches, strict=True)):
            h = ops.rms_norm(x, block.attn_norm, hp.rms_eps)
            attended = self._attend(block, cache, h, angles, batch).named(f"attn_out-{i}")
            x = ops.add(x, attended)
            if block is self._blocks[-1]:  # the rest is wanted of the outputs alone
                x = ops.select(x, batch.outputs)
            h = ops.rms_norm(x, block.ffn_norm, hp.rms_eps)
            x = ops.add(x, block.feed_forward(h)).named(f"l_out-{i}")
        return self._output(ops.rms_norm(x, self._output_norm, hp.rms_eps).named("result_norm"))

    def _attend(self, block: Block, cache: Cache, h: Ref, angles: Ref, batch: Batch) -> Ref:
        hp = self.hparams
        q = ops.rope(block.q(h).reshape(hp.heads, hp.key_dim), angles, RopeStyle.NORM)
        k = ops.rope(block.k(h).reshape(hp.kv_heads, hp.key_dim), angles, RopeStyle.NORM)
        ops.cache_store(cache, k, block.v(h), batch.slots, batch.positions)
        mixed = ops.attention(q, cache, batch.slots, batch.positions, scale=1 / math.sqrt(hp.key_dim))
        return block.attn_output(mixed)
