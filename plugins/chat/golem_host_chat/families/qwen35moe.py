"""qwen35moe: Qwen3.5's and 3.6's mixtures, from 35B-A3B on (`general.architecture` = qwen35moe).

As qwen35, with an expert mixture for each feed-forward: the chosen experts' weights are renormalized, and a shared
expert that every token passes is added, weighted by a sigmoid gate of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from golem_host import ops
from golem_host.ops import Ref, Weighting
from golem_host.weights.gguf import Gguf
from golem_host.weights.tensor import Tensor
from golem_host_chat.families.base import Batch, CacheSpec, Family, StateSpec
from golem_host_chat.families.delta_net import DeltaNet, GatedAttention, read_delta_hparams
from golem_host_chat.families.hparams import read_experts, read_hparams, read_number, refuse_keys
from golem_host_chat.families.weights import GatedExperts, Linear, Weights


@dataclass(frozen=True)
class Block:
    mixer_norm: Tensor
    mixer: DeltaNet | GatedAttention
    ffn_norm: Tensor
    router: Linear
    experts: GatedExperts
    down: Tensor
    shared_router: Linear
    shared_gate: Linear
    shared_up: Linear
    shared_down: Linear


class Qwen35Moe(Family):
    architecture: ClassVar[str] = "qwen35moe"

    def __init__(self, gguf: Gguf) -> None:
        hp = self.hparams = read_hparams(gguf)
        self.delta = read_delta_hparams(gguf, hp)
        self.experts = read_experts(gguf, hp.ff_width)
        self.shared_width = read_number(gguf, "expert_shared_feed_forward_length", hp.ff_width)
        refuse_keys(gguf, "expert_weights_scale", "pooling_type")
        weights = Weights(gguf)
        self.context_length = hp.context_length
        self.embedding_length = hp.width
        self.vocab_size = weights.vocab_size(hp.width)
        self._embeddings = weights.tensor("token_embd.weight", self.vocab_size, hp.width)
        self._blocks = [self._block(weights, layer) for layer in range(self.delta.layers)]
        weights.skip(*(f"blk.{layer}." for layer in range(self.delta.layers, hp.layers)))
        self._output_norm = weights.tensor("output_norm.weight", hp.width)
        self._output = weights.head(self.vocab_size, hp.width)
        weights.warn_unused()

    def _block(self, weights: Weights, layer: int) -> Block:
        hp, delta, experts, name = self.hparams, self.delta, self.experts, f"blk.{layer}"
        if delta.recurrent[layer]:
            mixer = DeltaNet.of(weights, name, delta, hp.width, hp.rms_eps)
        else:
            mixer = GatedAttention.of(weights, name, hp)
        return Block(
            mixer_norm=weights.tensor(f"{name}.attn_norm.weight", hp.width),
            mixer=mixer,
            ffn_norm=weights.tensor(f"{name}.post_attention_norm.weight", hp.width),
            router=weights.linear(f"{name}.ffn_gate_inp", experts.count, hp.width),
            experts=weights.gated_experts(name, experts.count, experts.ff_width, hp.width),
            down=weights.experts(f"{name}.ffn_down_exps", experts.count, hp.width, experts.ff_width),
            shared_router=Linear(weights.row(f"{name}.ffn_gate_inp_shexp.weight", hp.width)),
            shared_gate=weights.linear(f"{name}.ffn_gate_shexp", self.shared_width, hp.width),
            shared_up=weights.linear(f"{name}.ffn_up_shexp", self.shared_width, hp.width),
            shared_down=weights.linear(f"{name}.ffn_down_shexp", hp.width, self.shared_width),
        )

    def caches(self) -> list[CacheSpec]:
        return self.delta.caches(self.hparams)

    def states(self) -> list[StateSpec]:
        return self.delta.states()

    def forward(self, batch: Batch) -> Ref:
        hp = self.hparams
        angles = ops.rope_angles(batch.positions, hp.rope_dims, base=hp.rope_base, scale=hp.rope_scale, yarn=hp.yarn)
        caches, states = iter(batch.caches), iter(batch.states)
        x = ops.rows(self._embeddings, batch.tokens)
        for i, block in enumerate(self._blocks):
            h = ops.rms_norm(x, block.mixer_norm, hp.rms_eps)
            if isinstance(block.mixer, DeltaNet):
                mixed = block.mixer(h, (next(states), next(states)), batch)
            else:
                mixed = block.mixer(h, next(caches), angles, batch)
            x = ops.add(x, mixed.named(f"attn_out-{i}"))
            if block is self._blocks[-1]:  # the rest is wanted of the outputs alone
                x = ops.select(x, batch.outputs)
            h = ops.rms_norm(x, block.ffn_norm, hp.rms_eps)
            x = ops.add(x, ops.add(self._mix(block, h), self._shared(block, h))).named(f"l_out-{i}")
        return self._output(ops.rms_norm(x, self._output_norm, hp.rms_eps).named("result_norm"))

    def _mix(self, block: Block, h: Ref) -> Ref:
        routes = ops.route(block.router(h), self.experts.used, Weighting.SOFTMAX_CHOSEN)
        gate, up = block.experts(h, routes)
        return ops.mix(ops.expert_linear(ops.swiglu(gate, up), routes, block.down), routes)

    def _shared(self, block: Block, h: Ref) -> Ref:
        weight = ops.route(block.shared_router(h), 1, Weighting.SIGMOID)
        out = block.shared_down(ops.swiglu(block.shared_gate(h), block.shared_up(h)))
        return ops.mix(out.reshape(1, self.hparams.width), weight)
