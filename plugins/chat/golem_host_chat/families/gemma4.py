"""gemma4: Gemma 4 text models (`general.architecture` = gemma4): E2B, E4B, 12B, 26B-A4B, 31B.

As gemma3, with heads of their own size in full layers, whose rotation leaves most pairs as they are; values normalised,
and made of the keys' projection where they have none; scores not scaled. E2B and E4B add to each layer an embedding of
the token for that layer (Gemma 3n), and their last layers read keys and values of earlier ones. 26B-A4B adds an expert
mixture beside each feed-forward. What a file has, not its name, decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from golem_host import ops
from golem_host.ops import Cache, Ref, RopeStyle, Weighting
from golem_host.weights.gguf import Gguf
from golem_host.weights.tensor import Tensor
from golem_host_chat.families.base import Batch, CacheSpec, Family
from golem_host_chat.families.gemma4_hparams import Layer, read_gemma4
from golem_host_chat.families.hparams import read_experts
from golem_host_chat.families.weights import GatedExperts, Linear, Weights


@dataclass(frozen=True)
class KeysValues:
    k: Linear
    v: Linear | None
    """None where values are made of what `k` gives."""
    k_norm: Tensor


@dataclass(frozen=True)
class Mixture:
    """Experts beside the feed-forward."""

    used: int
    router: Linear
    router_norm: Tensor
    gated: GatedExperts
    down: Tensor
    down_scale: Tensor | None
    pre_norm: Tensor
    post_norm: Tensor
    dense_post_norm: Tensor


@dataclass(frozen=True)
class LayerInput:
    """What brings the token's embedding for this layer into the stream."""

    gate: Linear
    proj: Linear
    post_norm: Tensor


@dataclass(frozen=True)
class Block:
    layer: Layer
    attn_norm: Tensor
    q: Linear
    q_norm: Tensor
    own: KeysValues | None
    attn_output: Linear
    post_attention_norm: Tensor
    ffn_norm: Tensor
    gate: Linear
    up: Linear
    down: Linear
    mixture: Mixture | None
    post_ffw_norm: Tensor
    input: LayerInput | None
    output_scale: float


@dataclass(frozen=True)
class LayerEmbeddings:
    """`table` holds for each token the embeddings of all layers, one after another."""

    table: Tensor
    proj: Linear
    proj_norm: Tensor


@dataclass(frozen=True)
class Rows:
    """Whose past the rows of a layer see, and by which angles full and sliding layers turn them."""

    slots: Ref
    positions: Ref
    full: Ref
    sliding: Ref


class Gemma4(Family):
    architecture: ClassVar[str] = "gemma4"

    def __init__(self, gguf: Gguf) -> None:
        hp = self.hparams = read_gemma4(gguf)
        weights = Weights(gguf)
        self.context_length = hp.context_length
        self.embedding_length = hp.width
        self.vocab_size = weights.vocab_size(hp.width)
        self._embeddings = weights.tensor("token_embd.weight", self.vocab_size, hp.width)
        self._layer_embeddings: LayerEmbeddings | None = None
        if hp.per_layer:
            values = hp.per_layer * len(hp.layers)
            self._layer_embeddings = LayerEmbeddings(
                table=weights.tensor("per_layer_token_embd.weight", self.vocab_size, values),
                proj=weights.linear("per_layer_model_proj", values, hp.width),
                proj_norm=weights.tensor("per_layer_proj_norm.weight", hp.per_layer),
            )
        self._rope_factors: Tensor | None = None
        if not all(layer.window for layer in hp.layers):
            self._rope_factors = weights.tensor("rope_freqs.weight", hp.full.rope_dims // 2)
        self._blocks = [self._block(gguf, weights, at) for at in range(len(hp.layers))]
        self._output_norm = weights.tensor("output_norm.weight", hp.width)
        self._output = weights.head(self.vocab_size, hp.width)
        weights.warn_unused()

    def _block(self, gguf: Gguf, weights: Weights, at: int) -> Block:
        hp, layer, name = self.hparams, self.hparams.layers[at], f"blk.{at}"
        scale = weights.optional(f"{name}.layer_output_scale.weight", 1)
        q, k, v = self._qkv(gguf, weights, at)
        return Block(
            layer=layer,
            attn_norm=weights.tensor(f"{name}.attn_norm.weight", hp.width),
            q=q,
            q_norm=weights.tensor(f"{name}.attn_q_norm.weight", layer.head_dim),
            own=None if k is None else KeysValues(k, v, weights.tensor(f"{name}.attn_k_norm.weight", layer.head_dim)),
            attn_output=weights.linear(f"{name}.attn_output", hp.width, layer.heads * layer.head_dim),
            post_attention_norm=weights.tensor(f"{name}.post_attention_norm.weight", hp.width),
            ffn_norm=weights.tensor(f"{name}.ffn_norm.weight", hp.width),
            gate=weights.linear(f"{name}.ffn_gate", layer.ff_width, hp.width),
            up=weights.linear(f"{name}.ffn_up", layer.ff_width, hp.width),
            down=weights.linear(f"{name}.ffn_down", hp.width, layer.ff_width),
            mixture=self._mixture(gguf, weights, name) if f"{name}.ffn_gate_inp.weight" in gguf.tensors else None,
            post_ffw_norm=weights.tensor(f"{name}.post_ffw_norm.weight", hp.width),
            input=self._layer_input(weights, name) if hp.per_layer else None,
            output_scale=1.0 if scale is None else weights.number(scale),
        )

    def _qkv(self, gguf: Gguf, weights: Weights, at: int) -> tuple[Linear, Linear | None, Linear | None]:
        """Projections to queries, keys and values; no keys where a layer reads another's, no values where keys are."""
        hp, layer, name = self.hparams, self.hparams.layers[at], f"blk.{at}"
        owns = at < hp.owning
        queries, values = layer.heads * layer.head_dim, layer.kv_heads * layer.head_dim
        if f"{name}.attn_qkv.weight" in gguf.tensors:
            q, k, v = weights.qkv(name, queries, values, values, hp.width)
            return (q, k, v) if owns else (q, None, None)
        q = weights.linear(f"{name}.attn_q", queries, hp.width)
        if not owns:  # some files have what is not needed then
            weights.skip(f"{name}.attn_k", f"{name}.attn_v")
            return q, None, None
        k = weights.linear(f"{name}.attn_k", values, hp.width)
        return q, k, weights.optional_linear(f"{name}.attn_v", values, hp.width)

    def _layer_input(self, weights: Weights, name: str) -> LayerInput:
        hp = self.hparams
        return LayerInput(
            gate=weights.linear(f"{name}.inp_gate", hp.per_layer, hp.width),
            proj=weights.linear(f"{name}.proj", hp.width, hp.per_layer),
            post_norm=weights.tensor(f"{name}.post_norm.weight", hp.width),
        )

    def _mixture(self, gguf: Gguf, weights: Weights, name: str) -> Mixture:
        width, experts = self.hparams.width, read_experts(gguf, 0)
        count, inner = experts.count, experts.ff_width
        down, down_scale = weights.scaled_experts(f"{name}.ffn_down_exps", count, width, inner)
        return Mixture(
            used=experts.used,
            router=Linear(weights.tensor(f"{name}.ffn_gate_inp.weight", count, width)),
            router_norm=weights.tensor(f"{name}.ffn_gate_inp.scale", width),
            gated=weights.gated_experts(name, count, inner, width),
            down=down,
            down_scale=down_scale,
            pre_norm=weights.tensor(f"{name}.pre_ffw_norm_2.weight", width),
            post_norm=weights.tensor(f"{name}.post_ffw_norm_2.weight", width),
            dense_post_norm=weights.tensor(f"{name}.post_ffw_norm_1.weight", width),
        )

    def caches(self) -> list[CacheSpec]:
        return [
            CacheSpec(layer.kv_heads, layer.head_dim, layer.head_dim, layer.window)
            for layer in self.hparams.layers[: self.hparams.owning]
        ]

    def forward(self, batch: Batch) -> Ref:
        hp = self.hparams
        rows = self._rows(batch.slots, batch.positions)
        x = ops.scale(ops.rows(self._embeddings, batch.tokens), math.sqrt(hp.width))
        inputs = self._inputs(x, batch.tokens)
        for at in range(len(hp.layers)):
            if at == hp.owning:
                rows = self._rows(ops.select(batch.slots, batch.outputs), ops.select(batch.positions, batch.outputs))
            x = self._attended(at, x, rows, batch.caches)
            if at == hp.owning - 1:
                # From here on nothing is remembered: only the rows whose logits are wanted go on.
                x = ops.select(x, batch.outputs)
                inputs = None if inputs is None else ops.select(inputs, batch.outputs)
            x = self._fed(at, x, inputs)
        logits = self._output(ops.rms_norm(x, self._output_norm, hp.rms_eps).named("result_norm"))
        return ops.softcap(logits, hp.logit_cap) if hp.logit_cap else logits

    def _rows(self, slots: Ref, positions: Ref) -> Rows:
        full, sliding = self.hparams.full, self.hparams.sliding
        return Rows(
            slots,
            positions,
            ops.rope_angles(positions, full.rope_dims, base=full.rope_base, factors=self._rope_factors),
            ops.rope_angles(positions, sliding.rope_dims, base=sliding.rope_base),
        )

    def _inputs(self, x: Ref, tokens: Ref) -> Ref | None:
        """The embeddings of all layers (rows, layers * per_layer): the token's own beside what its embedding gives."""
        hp, embeddings = self.hparams, self._layer_embeddings
        if embeddings is None:
            return None
        own = ops.scale(ops.rows(embeddings.table, tokens, in_file=True), math.sqrt(hp.per_layer))
        made = ops.scale(embeddings.proj(x), 1 / math.sqrt(hp.width)).reshape(len(hp.layers), hp.per_layer)
        made = ops.rms_norm(made, embeddings.proj_norm, hp.rms_eps).reshape(own.width)
        return ops.scale(ops.add(made, own), 1 / math.sqrt(2))

    def _attended(self, at: int, x: Ref, rows: Rows, caches: Sequence[Cache]) -> Ref:
        hp, block = self.hparams, self._blocks[at]
        h = ops.rms_norm(x, block.attn_norm, hp.rms_eps)
        mixed = self._attend(block, caches[block.layer.source], h, rows).named(f"attn_out-{at}")
        return ops.add(x, ops.rms_norm(mixed, block.post_attention_norm, hp.rms_eps))

    def _fed(self, at: int, x: Ref, inputs: Ref | None) -> Ref:
        hp, block = self.hparams, self._blocks[at]
        h = ops.rms_norm(x, block.ffn_norm, hp.rms_eps)
        h = block.down(ops.geglu(block.gate(h), block.up(h)))
        if block.mixture is not None:
            dense = ops.rms_norm(h, block.mixture.dense_post_norm, hp.rms_eps)
            h = ops.add(dense, self._mix(block.mixture, x))
        x = ops.add(x, ops.rms_norm(h, block.post_ffw_norm, hp.rms_eps))
        if block.input is not None and inputs is not None:
            h = ops.geglu(block.input.gate(x), ops.narrow(inputs, at * hp.per_layer, hp.per_layer))
            x = ops.add(x, ops.rms_norm(block.input.proj(h), block.input.post_norm, hp.rms_eps))
        if block.output_scale != 1:
            x = ops.scale(x, block.output_scale)
        return x.named(f"l_out-{at}")

    def _attend(self, block: Block, cache: Cache, h: Ref, rows: Rows) -> Ref:
        hp, layer, own = self.hparams, block.layer, block.own
        angles = rows.sliding if layer.window else rows.full
        q = ops.rms_norm(block.q(h).reshape(layer.heads, layer.head_dim), block.q_norm, hp.rms_eps)
        q = ops.rope(q, angles, RopeStyle.NEOX)
        if own is not None:
            projected = own.k(h).reshape(layer.kv_heads, layer.head_dim)
            k = ops.rope(ops.rms_norm(projected, own.k_norm, hp.rms_eps), angles, RopeStyle.NEOX)
            v = projected if own.v is None else own.v(h).reshape(layer.kv_heads, layer.head_dim)
            ops.cache_store(cache, k, ops.rms_norm(v, None, hp.rms_eps), rows.slots, rows.positions)
        mixed = ops.attention(q, cache, rows.slots, rows.positions, scale=1.0, window=layer.window)
        return block.attn_output(mixed)

    def _mix(self, mixture: Mixture, x: Ref) -> Ref:
        """What the experts give. They are chosen by the stream itself, not by what a branch reads."""
        hp = self.hparams
        chosen_by = ops.scale(ops.rms_norm(x, mixture.router_norm, hp.rms_eps), 1 / math.sqrt(hp.width))
        logits = mixture.router(chosen_by)
        routes = ops.route(logits, mixture.used, Weighting.SOFTMAX_CHOSEN, scale=mixture.down_scale)
        h = ops.rms_norm(x, mixture.pre_norm, hp.rms_eps)
        gate, up = mixture.gated(h, routes)
        mixed = ops.mix(ops.expert_linear(ops.geglu(gate, up), routes, mixture.down), routes)
        return ops.rms_norm(mixed, mixture.post_norm, hp.rms_eps)
