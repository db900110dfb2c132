"""What every encoder family gives the runtime: its weights, checked, and its forward pass."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from golem_host import ops
from golem_host.ops import Ref
from golem_host_embed.checkpoint import Checkpoint, Gelu
from golem_host_embed.weights import Linear, Norm, Weights


@dataclass(frozen=True)
class Batch:
    """The rows of a pass, each a token; texts lie one after the other.

    int32 (rows,): `tokens`; `positions` within the text, from 0; `segments`, of a pair's second text 1; `texts`, the
    number of the text.
    """

    tokens: Ref
    positions: Ref
    segments: Ref
    texts: Ref


class Encoder(ABC):
    """One family. Made from a checkpoint, it raises `ModelFileError` for anything in it that it does not understand."""

    @abstractmethod
    def __init__(self, checkpoint: Checkpoint) -> None: ...

    @abstractmethod
    def forward(self, batch: Batch) -> Ref:
        """Record the pass; the last layer's rows, float32 (rows, width)."""


@dataclass(frozen=True)
class FeedForward:
    """down(gelu(up(x))), with biases."""

    up: Linear
    down: Linear
    gelu: Gelu

    @classmethod
    def read(cls, weights: Weights, name: str, width: int, ff_width: int, gelu: Gelu) -> FeedForward:
        """`name.ffn_up` and `name.ffn_down`."""
        return cls(
            weights.linear(f"{name}.ffn_up", ff_width, width), weights.linear(f"{name}.ffn_down", width, ff_width), gelu
        )

    def __call__(self, x: Ref) -> Ref:
        return self.down(activate(self.up(x), self.gelu))


def activate(x: Ref, gelu: Gelu) -> Ref:
    """The form of GELU that a checkpoint asks for."""
    return ops.gelu(x) if gelu is Gelu.ERF else ops.gelu_tanh(x)


@dataclass(frozen=True)
class SelfAttention:
    """Attention over the rows of each text, added to its input and normalised (post-norm, Vaswani et al. 2017)."""

    qkv: tuple[Linear, Linear, Linear]
    output: Linear
    norm: Norm
    heads: int

    @classmethod
    def read(cls, weights: Weights, name: str, width: int, heads: int) -> SelfAttention:
        """`name.attn_q` and so on, `name.attn_output` and `name.attn_output_norm`."""
        return cls(
            weights.qkv(name, width),
            weights.linear(f"{name}.attn_output", width, width),
            weights.norm(f"{name}.attn_output_norm", width),
            heads,
        )

    def __call__(self, x: Ref, batch: Batch, angles: Ref | None) -> Ref:
        """`angles` turn queries and keys, for families without a table of positions."""
        dim = x.width // self.heads
        q, k, v = (each(x).reshape(self.heads, dim) for each in self.qkv)
        if angles is not None:
            q, k = (ops.rope(each, angles, ops.RopeStyle.NEOX) for each in (q, k))
        mixed = ops.text_attention(q, k, v, batch.texts, scale=1 / math.sqrt(dim))
        return self.norm(ops.add(self.output(mixed.reshape(x.width)), x))
