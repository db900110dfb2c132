"""Sums, products and scalings of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from golem_host.ops.recording import Ref
from golem_host.ops.rowwise import rowwise
from golem_host.weights.tensor import Tensor

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


@dataclass(frozen=True)
class AddRow:
    def twin(self, x: torch.Tensor, row: Tensor) -> torch.Tensor:
        import torch

        return x + torch.from_numpy(row.float32())


def add_row(x: Ref, row: Tensor) -> Ref:
    """x + row: `row` (n,) is added to every row of `x` (rows, n)."""
    _same_width(x, row)
    return x.recording.append(AddRow(), (x, row), x.axis, x.shape, in_place=(0,))


@dataclass(frozen=True)
class MultiplyRow:
    def twin(self, x: torch.Tensor, row: Tensor) -> torch.Tensor:
        import torch

        return x * torch.from_numpy(row.float32())


def multiply_row(x: Ref, row: Tensor) -> Ref:
    """x * row: every row of `x` (rows, n) times `row` (n,), value by value."""
    _same_width(x, row)
    return x.recording.append(MultiplyRow(), (x, row), x.axis, x.shape, in_place=(0,))


def _same_width(x: Ref, row: Tensor) -> None:
    if row.shape != x.shape:
        raise ValueError(f"{row.name} has shape {row.shape}, the rows have shape {x.shape}")
