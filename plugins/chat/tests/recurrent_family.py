"""A small family with every kind of memory: two recurrent states, a sliding cache and a full one, in one model.

It is no model of anybody's; it reads the tensors of a tiny llama checkpoint so that the engine can be tested with
states whatever families there are.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from golem_host import ops
from golem_host.ops import Cache, Ref, RopeStyle
from golem_host.weights.gguf import Gguf
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType
from golem_host_chat.families import Batch, CacheSpec, Family, StateSpec
from golem_host_chat.families.llama import Dense, Llama

TAPS, WINDOW = 4, 8
HEADS, KEY_DIM, VALUE_DIM = 4, 32, 16


class Recurrent(Family):
    """Convolution and gated delta rule, sliding attention, full attention, each added to the stream."""

    architecture: ClassVar[str] = "llama"

    def __init__(self, gguf: Gguf) -> None:
        self._llama = Llama(gguf)
        self.context_length = self._llama.context_length
        self.embedding_length = self._llama.embedding_length
        self.vocab_size = self._llama.vocab_size
        self._taps = _taps(self.embedding_length)

    def caches(self) -> list[CacheSpec]:
        (first, *_) = self._llama.caches()
        return [CacheSpec(first.kv_heads, first.key_dim, first.value_dim, window) for window in (WINDOW, 0)]

    def states(self) -> list[StateSpec]:
        return [StateSpec((TAPS - 1, self.embedding_length)), StateSpec((HEADS, KEY_DIM, VALUE_DIM))]

    def forward(self, batch: Batch) -> Ref:
        block, eps = self._llama._blocks[0], self._llama.hparams.rms_eps
        conv, delta = batch.states
        x = ops.rows(self._llama._embeddings, batch.tokens)
        h = ops.causal_conv(ops.rms_norm(x, block.attn_norm, eps), self._taps, conv, batch.slots, batch.positions)
        assert isinstance(block.feed_forward, Dense)
        qkv = ops.l2_norm(block.feed_forward.up(h), 2, KEY_DIM, eps)
        kept, beta = (ops.sigmoid(ops.narrow(h, first, HEADS)) for first in (0, HEADS))
        mixed = ops.gated_delta(qkv, kept, beta, delta, batch.slots, batch.positions, key_heads=1)
        x = ops.add(x, block.attn_output(mixed))
        for cache, window in zip(batch.caches, (WINDOW, 0), strict=True):
            x = ops.add(x, self._attend(cache, window, ops.rms_norm(x, block.attn_norm, eps), batch))
        x = ops.select(x, batch.outputs)
        return self._llama._output(ops.rms_norm(x, self._llama._output_norm, eps))

    def _attend(self, cache: Cache, window: int, h: Ref, batch: Batch) -> Ref:
        hp, block = self._llama.hparams, self._llama._blocks[1]
        angles = ops.rope_angles(batch.positions, hp.rope_dims, base=hp.rope_base)
        q = ops.rope(block.q(h).reshape(hp.heads, hp.key_dim), angles, RopeStyle.NORM)
        k = ops.rope(block.k(h).reshape(hp.kv_heads, hp.key_dim), angles, RopeStyle.NORM)
        ops.cache_store(cache, k, block.v(h), batch.slots, batch.positions)
        return block.attn_output(ops.attention(q, cache, batch.slots, batch.positions, scale=0.25, window=window))


def _taps(channels: int) -> Tensor:
    values = np.random.default_rng(3).standard_normal((channels, TAPS), np.float32)
    data = values.view(np.uint8).reshape(-1)
    return Tensor("conv.weight", values.shape, GgmlType.F32, Path("none.gguf"), (GgmlType.F32, data))
