"""A part of the last axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from golem_host.ops.recording import Ref

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Narrow:
    """Values first .. first + size of the last axis."""

    first: int
    size: int

    def twin(self, x: torch.Tensor) -> torch.Tensor:
        return x[..., self.first : self.first + self.size]


def narrow(x: Ref, first: int, size: int) -> Ref:
    """(rows, ..., size) from `x` (rows, ..., n): the values from `first` on, copied."""
    if first < 0 or size < 1 or first + size > x.shape[-1]:
        raise ValueError(f"values {first} to {first + size} of a last axis of {x.shape[-1]}")
    return x.recording.append(Narrow(first, size), (x,), x.axis, (*x.shape[:-1], size))
