"""BERT (Devlin et al. 2019): learned positions, post-norm layers."""

from __future__ import annotations

from dataclasses import dataclass

from golem_host import ops
from golem_host.ops import Ref
from golem_host_embed.checkpoint import Checkpoint
from golem_host_embed.encoder import Batch, Encoder, FeedForward, SelfAttention
from golem_host_embed.weights import Norm, Weights


@dataclass(frozen=True)
class Block:
    attention: SelfAttention
    feed_forward: FeedForward
    norm: Norm


class Bert(Encoder):
    def __init__(self, checkpoint: Checkpoint) -> None:
        hp, weights = checkpoint.hparams, Weights(checkpoint)
        self._tokens = weights.table("token_embd.weight", hp.width)
        self._positions = weights.tensor("position_embd.weight", hp.positions, hp.width)
        self._segments = weights.table("token_types.weight", hp.width)
        self._norm = weights.norm("token_embd_norm", hp.width)
        self._blocks = [
            Block(
                attention=SelfAttention.read(weights, f"blk.{i}", hp.width, hp.heads),
                feed_forward=FeedForward.read(weights, f"blk.{i}", hp.width, hp.ff_width, hp.gelu),
                norm=weights.norm(f"blk.{i}.layer_output_norm", hp.width),
            )
            for i in range(hp.layers)
        ]

    def forward(self, batch: Batch) -> Ref:
        x = ops.add(ops.rows(self._tokens, batch.tokens), ops.rows(self._segments, batch.segments))
        x = self._norm(ops.add(x, ops.rows(self._positions, batch.positions))).named("inp_norm")
        for i, block in enumerate(self._blocks):
            h = block.attention(x, batch, None).named(f"attn_out-{i}")
            x = block.norm(ops.add(block.feed_forward(h), h)).named(f"l_out-{i}")
        return x
