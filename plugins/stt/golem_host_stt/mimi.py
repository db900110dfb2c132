"""Mimi's encoder as a stream: samples to codes, frame by frame, in float32 throughout (codes jump where values cross
bounds, and half precision would change them).

As moshi 0.2.13 computes it (`MimiModel.encode` while streaming): causal SEANet, a transformer over two steps a frame, a
convolution to one, and split residual vector quantization.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from golem_host import ops
from golem_host.ops import Axis, CacheType, Recording, Ref
from golem_host.weights.tensor import Tensor
from golem_host_stt.checkpoint import Checkpoint
from golem_host_stt.dense import dense
from golem_host_stt.mimi_config import FRAME

NORM_EPS = 1e-5
STEPS = 2
"""Steps of the transformer in a frame."""


@dataclass(frozen=True)
class Linear:
    weight: Tensor
    bias: Tensor | None = None

    def __call__(self, x: Ref) -> Ref:
        return ops.linear(x, self.weight, self.bias)


@dataclass(frozen=True)
class Conv:
    """A causal convolution with `stride`: its weight as (out, taps * in), and a state of taps - stride steps."""

    linear: Linear
    taps: int
    stride: int
    state: Any
    repeat: bool = False

    def __call__(self, x: Ref, frames: Frames) -> Ref:
        axis = frames.axis(x.axis.capacity // self.stride)
        windows = ops.causal_windows(
            x,
            self.state,
            frames.slots,
            frames.positions,
            taps=self.taps,
            stride=self.stride,
            axis=axis,
            repeat=self.repeat,
        )
        return self.linear(windows)


@dataclass(frozen=True)
class Layer:
    """Norms before attention and feed-forward; both end in a projection that is scaled by channel."""

    norms: tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]
    qkv: tuple[Linear, Linear, Linear]
    output: Linear
    up: Linear
    down: Linear
    cache: Any


class Frames:
    """The rows of a pass at every rate: an axis for each number of steps in a frame.

    int32 `slots` and `positions` (frames,) say whose frame a row is, and its number; `step_slots` and `step_positions`
    (steps,) the same of the transformer's steps.
    """

    def __init__(self, recording: Recording, frames: int) -> None:
        self._recording = recording
        self._frames = frames
        self._axes: dict[int, Axis] = {}
        self.slots, self.positions = (recording.input(name, self.axis(frames)) for name in ("slots", "positions"))
        steps = self.axis(frames * STEPS)
        self.step_slots, self.step_positions = (
            recording.input(name, steps) for name in ("step_slots", "step_positions")
        )

    def axis(self, capacity: int) -> Axis:
        """The axis of so many steps in all frames; its name is that of the steps in one."""
        steps = capacity // self._frames
        if steps not in self._axes:
            self._axes[steps] = self._recording.axis(str(steps), capacity)
        return self._axes[steps]

    def live(self, frames: int) -> dict[str, int]:
        """The live rows of every axis when `frames` frames are."""
        return {axis.name: steps * frames for steps, axis in self._axes.items()}


class MimiEncoder:
    """The encoder of a checkpoint with the states of `slots` streams, of which a pass takes `widest` frames at most."""

    def __init__(self, checkpoint: Checkpoint, backend: Any, *, slots: int, widest: int) -> None:
        self._mimi = mimi = checkpoint.mimi
        self._tensors = checkpoint.mimi_tensors
        self._slots, self._backend = slots, backend
        channels = mimi.filters
        self._first = self._conv("encoder.model.0.conv.conv", 1)
        self._stages: list[tuple[Conv, Linear, Conv]] = []
        for stage, ratio in enumerate(mimi.ratios):
            at = f"encoder.model.{1 + 3 * stage}"
            narrow, wide = self._conv(f"{at}.block.1.conv.conv", 1), self._pointwise(f"{at}.block.3.conv.conv")
            self._stages.append((narrow, wide, self._conv(f"encoder.model.{3 + 3 * stage}.conv.conv", ratio)))
            channels *= 2
        self._last = self._conv(f"encoder.model.{2 + 3 * len(mimi.ratios)}.conv.conv", 1)
        # A row sees a window that ends with its frame, and is computed when all frames of the pass are stored.
        cells = mimi.context + STEPS * (widest - 1)
        self._layers = [self._layer(i, cells) for i in range(mimi.layers)]
        self._down = self._conv("downsample.conv.conv.conv", 2, repeat=True)
        self._first_code, self._rest = self._levels("rvq_first", 1), self._levels("rvq_rest", checkpoint.lm.levels - 1)

    def record(self, recording: Recording, frames: int) -> Frames:
        """Record the pass of so many frames; its outputs are `code-0` .. int32 (frames, 1).

        Inputs are those of `Frames` and `samples` (frames * 1920,) float32.
        """
        rows = Frames(recording, frames)
        x = recording.input("samples", rows.axis(frames * FRAME), dtype="f32").reshape(1)
        for code, ref in enumerate(self._codes(self._encode(x, rows))):
            recording.output(f"code-{code}", ref)
        return rows

    def _encode(self, x: Ref, frames: Frames) -> Ref:
        x = self._first(x, frames)
        for narrow, wide, down in self._stages:
            x = ops.add(wide(ops.elu(narrow(ops.elu(x), frames))), x)
            x = down(ops.elu(x), frames)
        x = self._last(ops.elu(x), frames)
        dim = self._mimi.width // self._mimi.heads
        angles = ops.rope_angles(frames.step_positions, dim, base=self._mimi.rope_base)
        for layer in self._layers:
            x = ops.add(
                x, layer.output(self._attend(layer, ops.layer_norm(x, *layer.norms[0], NORM_EPS), angles, frames))
            )
            x = ops.add(x, layer.down(ops.gelu(layer.up(ops.layer_norm(x, *layer.norms[1], NORM_EPS)))))
        return self._down(x, frames).named("latent")

    def _attend(self, layer: Layer, x: Ref, angles: Ref, frames: Frames) -> Ref:
        heads, dim = self._mimi.heads, self._mimi.width // self._mimi.heads
        q, k, v = (each(x).reshape(heads, dim) for each in layer.qkv)
        q, k = (ops.rope(each, angles, ops.RopeStyle.NORM) for each in (q, k))
        ops.cache_store(layer.cache, k, v, frames.step_slots, frames.step_positions)
        # moshi's ring of `context` cells has the whole frame in it before the first of its steps looks back.
        mixed = ops.attention(
            q,
            layer.cache,
            frames.step_slots,
            frames.step_positions,
            scale=1 / math.sqrt(dim),
            window=self._mimi.context,
            block=STEPS,
        )
        return mixed.reshape(self._mimi.width)

    def _codes(self, latent: Ref) -> list[Ref]:
        """The nearest entry of each codebook: argmin |r - e|, which is argmax r.e - |e|^2 / 2; r loses e, and so on.

        The levels after the first begin with the whole latent again.
        """
        found = []
        for project, entries in (self._first_code, self._rest):
            if not entries:
                continue
            rest = project(latent)
            for level, (opposite, bias) in enumerate(entries):
                # The table holds -e, so that one copy serves the search and the subtraction.
                scores = ops.linear(ops.scale(rest, -1.0), opposite, bias)
                code = ops.arg_largest(scores, ops.block_maxima(scores, self._mimi.entries), self._mimi.entries)
                found.append(code)
                if level + 1 < len(entries):
                    rest = ops.add(rest, ops.rows(opposite, code.reshape()))
        return found

    def _conv(self, name: str, stride: int, *, repeat: bool = False) -> Conv:
        weight = self._tensors[f"{name}.weight"].float32()
        out, inner, taps = weight.shape
        bias = self._tensors.get(f"{name}.bias")
        linear = Linear(
            self._dense(f"{name}.weight", weight.transpose(0, 2, 1).reshape(out, taps * inner)),
            None if bias is None else self._vector(f"{name}.bias"),
        )
        state = self._backend.state(slots=self._slots, shape=(taps - stride, inner))
        return Conv(linear, taps, stride, state, repeat)

    def _pointwise(self, name: str) -> Linear:
        return Linear(
            self._dense(f"{name}.weight", self._tensors[f"{name}.weight"].float32()[:, :, 0]),
            self._vector(f"{name}.bias"),
        )

    def _layer(self, i: int, cells: int) -> Layer:
        name, mimi = f"encoder_transformer.transformer.layers.{i}", self._mimi
        d, dim = mimi.width, mimi.width // mimi.heads
        qkv = self._tensors[f"{name}.self_attn.in_proj_weight"].float32()
        q, k, v = (Linear(self._dense(f"{name}.{each}", qkv[at * d : (at + 1) * d])) for at, each in enumerate("qkv"))
        first, second = (self._tensors[f"{name}.layer_scale_{each}.scale"].float32().reshape(d, 1) for each in (1, 2))
        output, down = (self._tensors[f"{name}.{each}.weight"].float32() for each in ("self_attn.out_proj", "linear2"))
        return Layer(
            norms=tuple((self._vector(f"{name}.norm{n}.weight"), self._vector(f"{name}.norm{n}.bias")) for n in (1, 2)),  # type: ignore[arg-type]
            qkv=(q, k, v),
            output=Linear(self._dense(f"{name}.output", first * output)),
            up=Linear(self._dense(f"{name}.up", self._tensors[f"{name}.linear1.weight"].float32())),
            down=Linear(self._dense(f"{name}.down", second * down)),
            cache=self._backend.cache(
                slots=self._slots, cells=cells, kv_heads=mimi.heads, key_dim=dim, value_dim=dim, type=CacheType.F32
            ),
        )

    def _levels(self, part: str, count: int) -> tuple[Linear, list[tuple[Tensor, Tensor]]]:
        """The projection before a quantizer, and of each level the negative entries and -|e|^2 / 2."""
        if not count:
            return Linear(self._first_code[0].weight), []
        project = self._tensors[f"quantizer.{part}.input_proj.weight"].float32()[:, :, 0]
        entries = []
        for level in range(count):
            name = f"quantizer.{part}.vq.layers.{level}._codebook"
            usage = self._tensors[f"{name}.cluster_usage"].float32().reshape(-1, 1)
            table = self._tensors[f"{name}.embedding_sum"].float32() / np.maximum(usage, np.float32(1e-5))
            bias = -0.5 * np.square(table.astype(np.float64)).sum(-1)
            entries.append(
                (self._dense(f"{name}.opposite", -table), self._dense(f"{name}.bias", bias.astype(np.float32)))
            )
        return Linear(self._dense(f"quantizer.{part}.input_proj", project)), entries

    def _dense(self, name: str, values: Any) -> Tensor:
        return dense(name, values, next(iter(self._tensors.values())).path)

    def _vector(self, name: str) -> Tensor:
        return self._dense(name, self._tensors[name].float32().reshape(-1))
