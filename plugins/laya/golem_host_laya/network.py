"""The forward pass: ModernBERT (Warner et al. 2024, arXiv 2412.13663) and laya's decision head.

As transformers' `modeling_modernbert` and laya 0.4.15 (`common.DecisionModel`) compute it in float32: products take
activations as they are, whatever type the weights are stored in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from golem_host import ops
from golem_host.ops import Ref
from golem_host.weights.tensor import Tensor
from golem_host_laya.checkpoint import Checkpoint

HEAD_EPS = 1e-5
"""Of the decision head's layer norms: torch's default."""


@dataclass(frozen=True)
class Batch:
    """The rows of a pass, each a token; sequences lie one after the other.

    int32 (rows,): `tokens`; `positions` within the sequence; `kinds` of the sequence's question; `sequences`, the
    number of the sequence. int32 (picked,): `picked`, the rows of which more than attention is wanted of the last
    layer: of each sequence its first and its markers.
    """

    tokens: Ref
    positions: Ref
    kinds: Ref
    sequences: Ref
    picked: Ref


@dataclass(frozen=True)
class Linear:
    """A projection: `weight` (out, in) and optional `bias` (out,)."""

    weight: Tensor
    bias: Tensor | None = None

    def __call__(self, x: Ref) -> Ref:
        return ops.linear(x, self.weight, self.bias, rounds=False)


@dataclass(frozen=True)
class Norm:
    """A layer norm's `weight` and optional `bias` (width,)."""

    weight: Tensor
    bias: Tensor | None
    eps: float

    def __call__(self, x: Ref) -> Ref:
        return ops.layer_norm(x, self.weight, self.bias, self.eps)


@dataclass(frozen=True)
class Attention:
    """Projections of queries, keys and values, and of what attention mixed."""

    qkv: tuple[Linear, Linear, Linear]
    output: Linear
    heads: int

    def mixed(self, x: Ref, sequences: Ref, *, angles: Ref | None = None, window: int = 0) -> Ref:
        """What attention within each sequence gives, before the last projection; `angles` turn queries and keys."""
        dim = x.width // self.heads
        q, k, v = (each(x).reshape(self.heads, dim) for each in self.qkv)
        if angles is not None:
            q, k = (ops.rope(each, angles, ops.RopeStyle.NEOX) for each in (q, k))
        return ops.text_attention(q, k, v, sequences, scale=1 / math.sqrt(dim), window=window).reshape(x.width)


@dataclass(frozen=True)
class EncoderLayer:
    """x + attention(norm(x)), then x + down(gelu(gate(norm(x))) * up(norm(x))); the first layer has no first norm."""

    attention_norm: Norm | None
    attention: Attention
    full: bool
    norm: Norm
    gate: Linear
    up: Linear
    down: Linear


@dataclass(frozen=True)
class HeadLayer:
    """torch's `TransformerEncoderLayer` with norms first: no positions, ReLU."""

    attention_norm: Norm
    attention: Attention
    norm: Norm
    up: Linear
    down: Linear


class Network:
    """A checkpoint's layers. The checkpoint's tensors are known to have the right names, shapes and types."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._hparams = checkpoint.hparams
        self._tensors = checkpoint.weights.tensors
        encoder = self._encoder = checkpoint.hparams.encoder
        self._table = self._tensors["encoder.embeddings.tok_embeddings.weight"]
        self._first_norm = self._norm("encoder.embeddings.norm", encoder.norm_eps)
        self._layers = [self._encoder_layer(i, full) for i, full in enumerate(encoder.full)]
        self._last_norm = self._norm("encoder.final_norm", encoder.norm_eps)
        self._kinds = self._tensors["type_emb.weight"]
        self._head = [self._head_layer(i) for i in range(checkpoint.hparams.head_layers)]
        self._scorer = (self._norm("scorer.0", HEAD_EPS), self._linear("scorer.1"), self._linear("scorer.3"))
        act = self._linear("act_head.0")
        self._act = Linear(_columns(act.weight, encoder.width), act.bias)

    def encode(self, batch: Batch) -> Ref:
        """The encoder's rows, float32 (rows, width)."""
        encoder = self._encoder
        dim = encoder.width // encoder.heads
        angles = [ops.rope_angles(batch.positions, dim, base=theta) for theta in encoder.thetas]
        x = self._first_norm(ops.rows(self._table, batch.tokens)).named("embeddings")
        for i, layer in enumerate(self._layers):
            y = x if layer.attention_norm is None else layer.attention_norm(x)
            window = 0 if layer.full else encoder.window
            mixed = layer.attention.mixed(y, batch.sequences, angles=angles[layer.full], window=window)
            x = ops.add(x, layer.attention.output(mixed))
            z = layer.norm(x)
            x = ops.add(x, layer.down(ops.gelu_gate(layer.gate(z), layer.up(z)))).named(f"layer-{i}")
        return self._last_norm(x).named("encoded")

    def decide(self, x: Ref, batch: Batch) -> Ref:
        """The head's rows at `picked`, float32 (picked, width), from the encoder's rows `x`."""
        x = ops.add(x, ops.rows(self._kinds, batch.kinds))
        if not self._head:
            return ops.select(x, batch.picked)
        for i, layer in enumerate(self._head):
            mixed = layer.attention.mixed(layer.attention_norm(x), batch.sequences)
            if i == len(self._head) - 1:  # what follows concerns a row alone
                x, mixed = ops.select(x, batch.picked), ops.select(mixed, batch.picked)
            x = ops.add(x, layer.attention.output(mixed))
            x = ops.add(x, layer.down(ops.relu(layer.up(layer.norm(x))))).named(f"head-{i}")
        return x

    def score(self, x: Ref) -> Ref:
        """The logits of options from their markers' rows, float32 (picked, 1)."""
        norm, inner, outer = self._scorer
        return outer(ops.gelu(inner(norm(x))))

    def act(self, first: Ref) -> Ref:
        """What the act head's first layer makes of a sequence's first row, before the features are added (n, 256)."""
        return self._act(first)

    def _encoder_layer(self, i: int, full: bool) -> EncoderLayer:
        name, eps, width = f"encoder.layers.{i}", self._encoder.norm_eps, self._encoder.ff_width
        qkv = self._tensors[f"{name}.attn.Wqkv.weight"]
        wide = replace(self._tensors[f"{name}.mlp.Wi.weight"], shape=(2, width, self._encoder.width))
        return EncoderLayer(
            attention_norm=self._norm(f"{name}.attn_norm", eps) if i else None,
            attention=Attention(self._thirds(qkv), self._linear(f"{name}.attn.Wo"), self._encoder.heads),
            full=full,
            norm=self._norm(f"{name}.mlp_norm", eps),
            gate=Linear(wide.matrix(0)),
            up=Linear(wide.matrix(1)),
            down=self._linear(f"{name}.mlp.Wo"),
        )

    def _head_layer(self, i: int) -> HeadLayer:
        name = f"head.layers.{i}"
        qkv, bias = (self._tensors[f"{name}.self_attn.in_proj_{each}"] for each in ("weight", "bias"))
        output = self._linear(f"{name}.self_attn.out_proj")
        return HeadLayer(
            attention_norm=self._norm(f"{name}.norm1", HEAD_EPS),
            attention=Attention(self._thirds(qkv, bias), output, self._hparams.head_heads),
            norm=self._norm(f"{name}.norm2", HEAD_EPS),
            up=self._linear(f"{name}.linear1"),
            down=self._linear(f"{name}.linear2"),
        )

    def _thirds(self, weight: Tensor, bias: Tensor | None = None) -> tuple[Linear, Linear, Linear]:
        width = weight.shape[1]
        weights = replace(weight, shape=(3, width, width))
        biases: list[Tensor | None] = [None] * 3
        if bias is not None:
            stack = replace(bias, shape=(3, 1, width))
            biases = [replace(stack.matrix(third), shape=(width,)) for third in range(3)]
        q, k, v = (Linear(weights.matrix(third), biases[third]) for third in range(3))
        return q, k, v

    def _linear(self, name: str) -> Linear:
        return Linear(self._tensors[f"{name}.weight"], self._tensors.get(f"{name}.bias"))

    def _norm(self, name: str, eps: float) -> Norm:
        return Norm(self._tensors[f"{name}.weight"], self._tensors.get(f"{name}.bias"), eps)


def _columns(matrix: Tensor, count: int) -> Tensor:
    """The first `count` columns of a small matrix, copied."""
    rows = matrix.data.reshape(matrix.shape[0], -1)[:, : count * matrix.type.block_bytes]
    data = rows.copy().reshape(-1)
    return replace(matrix, shape=(matrix.shape[0], count), stored=(matrix.type, data))
