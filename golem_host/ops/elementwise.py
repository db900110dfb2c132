"""Sums, products and scalings of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from golem_host.ops.recording import Ref
from golem_host.ops.rowwise import rowwise

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Add:
    def twin(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


def add(x: Ref, y: Ref) -> Ref:
    """x + y, both (rows, n)."""
    if x.width != y.width:
        raise ValueError(f"rows of {x.width} and of {y.width} values cannot be added")
    return x.recording.append(Add(), (x, y), x.axis, x.shape, in_place=(0, 1))


@dataclass(frozen=True)
class Scale:
    factor: float

    def twin(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


def scale(x: Ref, factor: float) -> Ref:
    """x * factor, the factor rounded to float32."""
    return x.recording.append(Scale(factor), (x,), x.axis, x.shape, in_place=(0,))


@dataclass(frozen=True)
class Softcap:
    cap: float

    def twin(self, x: torch.Tensor) -> torch.Tensor:
        import torch

        return rowwise(lambda row: self.cap * torch.tanh(row / self.cap), x)


def softcap(x: Ref, cap: float) -> Ref:
    """cap * tanh(x / cap): keeps logits within (-cap, cap)."""
    return x.recording.append(Softcap(cap), (x,), x.axis, x.shape, in_place=(0,))
