"""qwen3moe: Qwen3's mixtures, 30B-A3B and 235B-A22B (`general.architecture` = qwen3moe).

As qwen3, with an expert mixture for each feed-forward: the chosen experts' weights are renormalized.
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
from golem_host_chat.families.hparams import read_experts, read_hparams, refuse_keys
from golem_host_chat.families.weights import Linear, Weights


@dataclass(frozen=True)
class Block:
    attn_norm: Tensor
    q: Linear
    k: Linear
    v: Linear
    q_norm: Tensor
    k_norm: Tensor
    attn_output: Linear
    ffn_norm: Tensor
    router: Linear
    gate: Tensor
    up: Tensor
    down: Tensor


class Qwen3Moe(Family):
    architecture: ClassVar[str] = "qwen3moe"

    def __init__(self, gguf: Gguf) -> None:
        hp = self.hparams = read_hparams(gguf)
        self.experts = read_experts(gguf, hp.ff_width)
        refuse_keys(gguf, "expert_shared_count", "expert_weights_scale", "pooling_type")
        weights = Weights(gguf)
        self.context_length = hp.context_length
        self.embedding_length = hp.width
        self.vocab_size = weights.vocab_size(hp.width)
        self._embeddings = weights.tensor("token_embd.weight", self.vocab_size, hp.width)
        self._blocks = [self._block(weights, f"blk.{i}") for i in range(hp.layers)]
        self._output_norm = weights.tensor("output_norm.weight", hp.width)
        self._output = weights.head(self.vocab_size, hp.width)
        weights.warn_unused()

    def _block(self, weights: Weights, name: str) -> Block:
        hp, experts = self.hparams, self.experts
        q, k, v = weights.qkv(
            name, hp.heads * hp.key_dim, hp.kv_heads * hp.key_dim, hp.kv_heads * hp.value_dim, hp.width
        )
        return Block(
            attn_norm=weights.tensor(f"{name}.attn_norm.weight", hp.width),
            q=q,
            k=k,
            v=v,
            q_norm=weights.tensor(f"{name}.attn_q_norm.weight", hp.key_dim),
            k_norm=weights.tensor(f"{name}.attn_k_norm.weight", hp.key_dim),
            attn_output=weights.linear(f"{name}.attn_output", hp.width, hp.heads * hp.value_dim),
            ffn_norm=weights.tensor(f"{name}.ffn_norm.weight", hp.width),
            router=weights.linear(f"{name}.ffn_gate_inp", experts.count, hp.width),
            gate=weights.experts(f"{name}.ffn_gate_exps", experts.count, experts.ff_width, hp.width),
            up=weights.experts(f"{name}.ffn_up_exps", experts.count, experts.ff_width, hp.width),
            down=weights.experts(f"{name}.ffn_down_exps", experts.count, hp.width, experts.ff_width),
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
            x = ops.add(x, self._mix(block, h)).named(f"l_out-{i}")
        return self._output(ops.rms_norm(x, self._output_norm, hp.rms_eps).named("result_norm"))

    def _attend(self, block: Block, cache: Cache, h: Ref, angles: Ref, batch: Batch) -> Ref:
        hp = self.hparams
        q = ops.rms_norm(block.q(h).reshape(hp.heads, hp.key_dim), block.q_norm, hp.rms_eps)
        k = ops.rms_norm(block.k(h).reshape(hp.kv_heads, hp.key_dim), block.k_norm, hp.rms_eps)
        q, k = ops.rope(q, angles, RopeStyle.NEOX), ops.rope(k, angles, RopeStyle.NEOX)
        ops.cache_store(cache, k, block.v(h), batch.slots, batch.positions)
        mixed = ops.attention(q, cache, batch.slots, batch.positions, scale=1 / math.sqrt(hp.key_dim))
        return block.attn_output(mixed)

    def _mix(self, block: Block, h: Ref) -> Ref:
        routes = ops.route(block.router(h), self.experts.used, Weighting.SOFTMAX_CHOSEN)
        gate, up = (ops.expert_linear(h, routes, each) for each in (block.gate, block.up))
        return ops.mix(ops.expert_linear(ops.swiglu(gate, up), routes, block.down), routes)
