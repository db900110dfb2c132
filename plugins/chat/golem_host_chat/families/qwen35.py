"""qwen35: Qwen3.5, 3.6 and 3.8 dense models and the Bonsai files made of them (`general.architecture` = qwen35).

Three layers of four are gated delta nets, which keep a state instead of keys; the fourth has full attention with a
gate. Blocks that predict further tokens (`nextn_predict_layers`) are not computed. Bonsai 2's weights are folded with a
transform of their inputs (`hadamard.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from golem_host import ops
from golem_host.ops import Ref
from golem_host.weights.gguf import Gguf
from golem_host.weights.tensor import Tensor
from golem_host_chat.families.base import Batch, CacheSpec, Family, StateSpec
from golem_host_chat.families.delta_net import DeltaNet, GatedAttention, read_delta_hparams
from golem_host_chat.families.hadamard import read_folding
from golem_host_chat.families.hparams import read_hparams, refuse_keys
from golem_host_chat.families.weights import Linear, Weights


@dataclass(frozen=True)
class Block:
    mixer_norm: Tensor
    mixer: DeltaNet | GatedAttention
    ffn_norm: Tensor
    gate: Linear
    up: Linear
    down: Linear


class Qwen35(Family):
    architecture: ClassVar[str] = "qwen35"

    def __init__(self, gguf: Gguf) -> None:
        hp = self.hparams = read_hparams(gguf)
        self.delta = read_delta_hparams(gguf, hp)
        refuse_keys(gguf, "expert_count", "pooling_type")
        self._folding = read_folding(gguf, self.delta.exchanged)
        weights = Weights(gguf, self._folding)
        self.context_length = hp.context_length
        self.embedding_length = hp.width
        self.vocab_size = weights.vocab_size(hp.width)
        self._embeddings = weights.tensor("token_embd.weight", self.vocab_size, hp.width)
        self._blocks = [self._block(weights, layer) for layer in range(self.delta.layers)]
        predictors = tuple(f"blk.{layer}." for layer in range(self.delta.layers, hp.layers))
        weights.skip(*predictors)
        self._output_norm = weights.tensor("output_norm.weight", hp.width)
        self._output = weights.head(self.vocab_size, hp.width)
        if self._folding is not None:
            self._folding.check(hp.width, predictors)
        weights.warn_unused()

    def _block(self, weights: Weights, layer: int) -> Block:
        hp, delta, name = self.hparams, self.delta, f"blk.{layer}"
        if delta.recurrent[layer]:
            mixer = DeltaNet.of(weights, name, delta, hp.width, hp.rms_eps)
        else:
            mixer = GatedAttention.of(weights, name, hp)
        return Block(
            mixer_norm=weights.tensor(f"{name}.attn_norm.weight", hp.width),
            mixer=mixer,
            ffn_norm=weights.tensor(f"{name}.post_attention_norm.weight", hp.width),
            gate=weights.linear(f"{name}.ffn_gate", hp.ff_width, hp.width),
            up=weights.linear(f"{name}.ffn_up", hp.ff_width, hp.width),
            down=weights.linear(f"{name}.ffn_down", hp.width, hp.ff_width),
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
        x = x if self._folding is None else self._folding.unfold(x)
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
            x = ops.add(x, block.down(ops.swiglu(block.gate(h), block.up(h)))).named(f"l_out-{i}")
        return self._output(ops.rms_norm(x, self._output_norm, hp.rms_eps).named("result_norm"))
