"""Nomic Embed v2 (Nussbaum and Duderstadt 2025, arXiv 2502.07972): BERT with turned queries and keys, in every other
layer a mixture of experts.

As GGUF engines compute it: experts have no bias. The weights of a token's experts are those of the softmax over all of
them, not renormalised.
"""

from __future__ import annotations

from dataclasses import dataclass

from golem_host import ops
from golem_host.ops import Ref, Weighting
from golem_host.weights.tensor import Tensor
from golem_host_embed.checkpoint import Checkpoint, Gelu, Hparams
from golem_host_embed.encoder import Batch, Encoder, FeedForward, SelfAttention, activate
from golem_host_embed.weights import Linear, Norm, Weights


@dataclass(frozen=True)
class Mixture:
    """The sum over a token's experts of weight * down(gelu(up(x)))."""

    router: Linear
    up: Tensor
    down: Tensor
    used: int
    gelu: Gelu

    @classmethod
    def read(cls, weights: Weights, name: str, hp: Hparams) -> Mixture:
        """`name.ffn_gate_inp`, `name.ffn_up_exps` (experts, ff, width), `name.ffn_down_exps` (experts, width, ff)."""
        return cls(
            weights.linear(f"{name}.ffn_gate_inp", hp.experts, hp.width),
            weights.tensor(f"{name}.ffn_up_exps.weight", hp.experts, hp.ff_width, hp.width),
            weights.tensor(f"{name}.ffn_down_exps.weight", hp.experts, hp.width, hp.ff_width),
            hp.experts_used,
            hp.gelu,
        )

    def __call__(self, x: Ref) -> Ref:
        routes = ops.route(self.router(x), self.used, Weighting.SOFTMAX)
        inner = activate(ops.expert_linear(x, routes, self.up), self.gelu)
        return ops.mix(ops.expert_linear(inner, routes, self.down), routes)


@dataclass(frozen=True)
class Block:
    attention: SelfAttention
    feed_forward: FeedForward | Mixture
    norm: Norm


class NomicBertMoe(Encoder):
    def __init__(self, checkpoint: Checkpoint) -> None:
        hp, weights = checkpoint.hparams, Weights(checkpoint)
        assert hp.rope_base is not None
        self._rope_base, self._rope_dims = hp.rope_base, hp.width // hp.heads
        self._tokens = weights.table("token_embd.weight", hp.width)
        self._segments = weights.table("token_types.weight", hp.width)
        self._norm = weights.norm("token_embd_norm", hp.width)
        self._blocks = [self._block(weights, f"blk.{i}", hp) for i in range(hp.layers)]

    @staticmethod
    def _block(weights: Weights, name: str, hp: Hparams) -> Block:
        mixed = f"{name}.ffn_gate_inp.weight" in weights
        return Block(
            attention=SelfAttention.read(weights, name, hp.width, hp.heads),
            feed_forward=Mixture.read(weights, name, hp)
            if mixed
            else FeedForward.read(weights, name, hp.width, hp.ff_width, hp.gelu),
            norm=weights.norm(f"{name}.layer_output_norm", hp.width),
        )

    def forward(self, batch: Batch) -> Ref:
        angles = ops.rope_angles(batch.positions, self._rope_dims, base=self._rope_base)
        x = ops.add(ops.rows(self._tokens, batch.tokens), ops.rows(self._segments, batch.segments))
        x = self._norm(x).named("inp_norm")
        for i, block in enumerate(self._blocks):
            h = block.attention(x, batch, angles).named(f"attn_out-{i}")
            x = block.norm(ops.add(block.feed_forward(h), h)).named(f"l_out-{i}")
        return x
