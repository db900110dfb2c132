"""The language model: one step a frame, over the frame's codes and the text token of the step before.

As moshi 0.2.13 (`LMModel.forward_text`) and Rust's `moshi-core` compute it, in float32 over weights of any stored type.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from golem_host import ops
from golem_host.ops import CacheType, Recording, Ref
from golem_host.weights.tensor import Tensor
from golem_host_stt.checkpoint import PAUSE_CLASSES, Checkpoint
from golem_host_stt.dense import dense, quantized

NORM_EPS = 1e-8


@dataclass(frozen=True)
class Layer:
    norms: tuple[Tensor, Tensor]
    qkv: tuple[Tensor, Tensor, Tensor]
    output: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor
    cache: Any


class LanguageModel:
    """The decoder of a checkpoint with the caches of `slots` streams.

    With `q8_0` its matrices are quantized while it is made, which takes seconds; `progress` takes the share done.
    """

    def __init__(
        self, checkpoint: Checkpoint, backend: Any, *, slots: int, q8_0: bool, progress: Callable[[float], None]
    ) -> None:
        self._lm = lm = checkpoint.lm
        self._tensors = tensors = checkpoint.lm_tensors
        self._q8_0 = q8_0
        self._text_table = tensors["text_emb.weight"]
        self._tables = [tensors[f"emb.{level}.weight"] for level in range(lm.levels)]
        dim = lm.width // lm.heads
        self._layers = []
        for i in range(lm.layers):
            cache = backend.cache(
                slots=slots, cells=lm.context, kv_heads=lm.heads, key_dim=dim, value_dim=dim, type=CacheType.F16
            )
            self._layers.append(self._layer(f"transformer.layers.{i}", cache))
            progress((i + 1) / lm.layers)
        self._out_norm = self._alpha("out_norm.alpha")
        self._text = self._matrix(tensors["text_linear.weight"])
        self._pauses = self._pause_heads() if lm.pauses else None

    def record(self, recording: Recording, rows: int) -> None:
        """Record the pass of so many rows, each a step of a stream.

        Inputs, int32 (rows,): `slots`, `positions`, `text` (the token before), `code-0` ... Outputs: `token` int32
        (rows, 1), -1 where its logits are not finite; `logits` (rows, text_cards); `pauses` (rows, heads * 6), where
        there are heads.
        """
        lm, axis = self._lm, recording.axis("rows", rows)
        slots, positions, text = (recording.input(name, axis) for name in ("slots", "positions", "text"))
        codes = [recording.input(f"code-{level}", axis) for level in range(lm.levels)]
        x = ops.rows(self._tables[0], codes[0])
        for table, code in zip(self._tables[1:], codes[1:], strict=True):
            x = ops.add(x, ops.rows(table, code))
        x = ops.add(x, ops.rows(self._text_table, text))
        angles = ops.rope_angles(positions, lm.width // lm.heads, base=lm.rope_base)
        for layer in self._layers:
            y = ops.rms_norm(x, layer.norms[0], NORM_EPS)
            x = ops.add(x, self._linear(self._attend(layer, y, angles, slots, positions), layer.output))
            y = ops.rms_norm(x, layer.norms[1], NORM_EPS)
            x = ops.add(x, self._linear(ops.swiglu(self._linear(y, layer.gate), self._linear(y, layer.up)), layer.down))
        x = ops.rms_norm(x, self._out_norm, NORM_EPS)
        logits = self._linear(x, self._text)
        recording.output("logits", logits)
        recording.output("token", ops.arg_largest(logits, ops.block_maxima(logits, lm.text_cards), lm.text_cards))
        if self._pauses is not None:
            recording.output("pauses", ops.linear(x, self._pauses))

    def _attend(self, layer: Layer, x: Ref, angles: Ref, slots: Ref, positions: Ref) -> Ref:
        heads, dim = self._lm.heads, self._lm.width // self._lm.heads
        q, k, v = (self._linear(x, each).reshape(heads, dim) for each in layer.qkv)
        q, k = (ops.rope(each, angles, ops.RopeStyle.NORM) for each in (q, k))
        ops.cache_store(layer.cache, k, v, slots, positions)
        scale = 1 / math.sqrt(dim)
        mixed = ops.attention(q, layer.cache, slots, positions, scale=scale, window=self._lm.context)
        return mixed.reshape(self._lm.width)

    def _linear(self, x: Ref, weight: Tensor) -> Ref:
        return ops.linear(x, weight, rounds=self._q8_0)

    def _layer(self, name: str, cache: Any) -> Layer:
        qkv, wide = self._tensors[f"{name}.self_attn.in_proj_weight"], self._tensors[f"{name}.gating.linear_in.weight"]
        d = self._lm.width
        thirds, halves = replace(qkv, shape=(3, d, d)), replace(wide, shape=(2, self._lm.ff_width, d))
        q, k, v = (self._matrix(thirds.matrix(third)) for third in range(3))
        return Layer(
            norms=(self._alpha(f"{name}.norm1.alpha"), self._alpha(f"{name}.norm2.alpha")),
            qkv=(q, k, v),
            output=self._matrix(self._tensors[f"{name}.self_attn.out_proj.weight"]),
            gate=self._matrix(halves.matrix(0)),
            up=self._matrix(halves.matrix(1)),
            down=self._matrix(self._tensors[f"{name}.gating.linear_out.weight"]),
            cache=cache,
        )

    def _matrix(self, tensor: Tensor) -> Tensor:
        return quantized(tensor) if self._q8_0 else tensor

    def _alpha(self, name: str) -> Tensor:
        tensor = self._tensors[name]
        return replace(tensor, shape=(tensor.elements,))

    def _pause_heads(self) -> Tensor:
        """The heads as one matrix (heads * 6, width)."""
        heads = [self._tensors[f"extra_heads.{head}.weight"].float32() for head in range(self._lm.pauses)]
        return dense("extra_heads", np.concatenate(heads), self._text.path)


def pause_probabilities(logits: np.ndarray) -> np.ndarray:
    """Of (heads * 6,) logits the probability of each head's first class, float32 (heads,)."""
    by_head = logits.reshape(-1, PAUSE_CLASSES)
    weights = np.exp(by_head - by_head.max(-1, keepdims=True))
    return weights[:, 0] / weights.sum(-1)
