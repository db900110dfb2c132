"""Attention temperature: queries grow with their position, so that attention over a long past stays as sharp (Llama 4,
Ministral 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from golem_host.ops.recording import Ref

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Temperature:
    strength: float
    period: int

    def twin(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        import torch

        turns = positions // self.period + 1
        factors = torch.tensor([1 + self.strength * math.log(each) for each in turns.tolist()], dtype=torch.float32)
        return x * factors.view(-1, *[1] * (x.ndim - 1))


def temperature(x: Ref, positions: Ref, *, strength: float, period: int) -> Ref:
    """x * (1 + strength * ln(1 + floor(position / period))): `x` (rows, *shape), int32 `positions` (rows,), none of
    them negative."""
    if period < 1:
        raise ValueError(f"a period of {period} positions")
    return x.recording.append(Temperature(strength, period), (x, positions), x.axis, x.shape, in_place=(0,))
