"""Rotary position embedding (Su et al. 2021), with linear and YaRN scaling (Peng et al. 2023) as ggml computes them, by
one position or several (multi-axis, Wang et al. 2024, arXiv 2409.12191)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from golem_host.ops.recording import Ref
from golem_host.ops.rowwise import rowwise
from golem_host.weights.tensor import Tensor

if TYPE_CHECKING:
    import torch


class RopeStyle(IntEnum):
    """Which values of a head form a pair: NORM (2i, 2i+1), NEOX (i, i + n/2)."""

    NORM = 0
    NEOX = 1


@dataclass(frozen=True)
class Sections:
    """How pairs are dealt out to the axes time, height, width and extra of multi-axis rotation; `sizes` in pairs.

    Sectioned (Qwen2-VL; `GGML_ROPE_TYPE_MROPE`): the first sizes[0] pairs turn by time, and so on. Interleaved
    (Qwen3-VL, Qwen3.5; `GGML_ROPE_TYPE_IMROPE`): pair i turns by axis i % 3 while i < 3 * that axis's size, else by
    extra. After all sections the pairs begin anew. With one position on all axes both equal plain rotation.
    """

    sizes: tuple[int, int, int, int]
    interleaved: bool

    def axis_of(self, pair: int) -> int:
        """The axis whose position turns a pair."""
        pair %= sum(self.sizes)
        if self.interleaved:
            return pair % 3 if pair < 3 * self.sizes[pair % 3] else 3
        return next(axis for axis in range(4) if pair < sum(self.sizes[: axis + 1]))


@dataclass(frozen=True)
class Yarn:
    """YaRN parameters: `extrapolation` 0 is off; `original_context` positions the checkpoint was trained on."""

    extrapolation: float = 0.0
    attention_factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    original_context: int = 0


@dataclass(frozen=True)
class RopeAngles:
    """cos and sin of every pair's angle: pos * base^(-2i/n) / factor_i * scale, ggml's repeated float32 product."""

    dims: int
    base: float
    scale: float
    yarn: Yarn
    sections: Sections | None = None

    def twin(self, positions: torch.Tensor, factors: Tensor | None) -> torch.Tensor:
        import torch

        pairs = self.dims // 2
        divisors = torch.ones(pairs) if factors is None else torch.from_numpy(factors.float32())
        mix = self._yarn_mix()
        axes = [0 if self.sections is None else self.sections.axis_of(pair) for pair in range(pairs)]

        def one(position: torch.Tensor) -> torch.Tensor:
            factors = np.full((pairs, position.numel()), self.turn, np.float32)
            factors[0] = position.numpy()
            products = np.multiply.accumulate(factors, dtype=np.float32)[range(pairs), axes]
            extrapolated = torch.from_numpy(products) / divisors
            angle = self.scale * extrapolated * (1 - mix) + extrapolated * mix
            return torch.stack([torch.cos(angle), torch.sin(angle)], -1) * self.magnitude

        return rowwise(one, positions)

    @property
    def turn(self) -> np.float32:
        """What a pair's angle is multiplied by to give the next one's."""
        return np.float32(self.base) ** np.float32(-2.0 / self.dims)

    @property
    def magnitude(self) -> float:
        """What cos and sin are multiplied by."""
        longer = 1 + 0.1 * math.log(1 / self.scale) if self.yarn.extrapolation else 1.0
        return self.yarn.attention_factor * longer

    def _yarn_mix(self) -> torch.Tensor:
        """How much of each pair's angle is extrapolated: (dims/2,), 0 without YaRN (`rope_yarn_ramp` of ggml)."""
        import torch

        if not self.yarn.extrapolation:
            return torch.zeros(self.dims // 2)
        low, high = self.yarn_range()
        ramp = (torch.arange(self.dims // 2) - low) / max(0.001, high - low)
        return (1 - ramp.clamp(0, 1)) * self.yarn.extrapolation

    def yarn_range(self) -> tuple[float, float]:
        """The pairs between which YaRN goes from extrapolation to interpolation (`ggml_rope_yarn_corr_dims`)."""

        def pair(turns: float) -> float:
            ratio = self.yarn.original_context / (turns * 2 * math.pi)
            return self.dims * math.log(ratio) / (2 * math.log(self.base))

        low, high = math.floor(pair(self.yarn.beta_fast)), math.ceil(pair(self.yarn.beta_slow))
        return max(0.0, low), min(self.dims - 1.0, high)


def rope_angles(
    positions: Ref,
    dims: int,
    *,
    base: float,
    scale: float = 1.0,
    factors: Tensor | None = None,
    yarn: Yarn | None = None,
    sections: Sections | None = None,
) -> Ref:
    """cos and sin (rows, dims/2, 2) for int32 `positions` (rows,); made once a pass and shared by its layers.

    `scale` is 1/factor of linear scaling; `factors` (dims/2,) divides each pair's angle (Llama 3's `rope_freqs`; the
    long or short factors of LongRoPE, whose magnitude is `Yarn.attention_factor`). With `sections` positions are
    (rows, 4), one on each axis.
    """
    if sections is not None and not (min(sections.sizes) >= 0 and 0 < sum(sections.sizes) <= dims // 2):
        raise ValueError(f"sections of {sections.sizes} pairs for {dims // 2} pairs")
    if positions.shape != (() if sections is None else (4,)):
        raise ValueError(f"positions of shape {positions.shape} for {'one axis' if sections is None else 'four axes'}")
    op = RopeAngles(dims, base, scale, yarn or Yarn(), sections)
    return positions.recording.append(op, (positions, factors), positions.axis, (dims // 2, 2))


@dataclass(frozen=True)
class Rope:
    """Rotate the first `dims` values of each head; the rest passes through."""

    style: RopeStyle
    dims: int

    def twin(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        import torch

        cos, sin = angles[..., 0].unsqueeze(1), angles[..., 1].unsqueeze(1)
        turned, rest = x[..., : self.dims], x[..., self.dims :]
        if self.style is RopeStyle.NORM:
            first, second = turned[..., 0::2], turned[..., 1::2]
        else:
            first, second = turned.chunk(2, -1)
        pair = (first * cos - second * sin, first * sin + second * cos)
        out = torch.stack(pair, -1).flatten(-2) if self.style is RopeStyle.NORM else torch.cat(pair, -1)
        return torch.cat([out, rest], -1)


def rope(x: Ref, angles: Ref, style: RopeStyle) -> Ref:
    """Rotate `x` (rows, heads, head_dim) by `angles` (rows, dims/2, 2)."""
    return x.recording.append(Rope(style, angles.shape[0] * 2), (x, angles), x.axis, x.shape, in_place=(0,))
