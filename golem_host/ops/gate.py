"""Gated activations: SwiGLU and GeGLU (Shazeer 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from golem_host.ops.recording import Ref
from golem_host.ops.rowwise import rowwise

if TYPE_CHECKING:
    import torch


class Activation(IntEnum):
    SILU = 0
    GELU_TANH = 1


@dataclass(frozen=True)
class Gate:
    """act(gate) * up. The tanh GELU takes and gives half precision, as ggml's table does, so that answers agree."""

    activation: Activation

    def twin(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        act = _silu if self.activation is Activation.SILU else _gelu_tanh
        return rowwise(act, gate) * up


def _silu(x: torch.Tensor) -> torch.Tensor:
    import torch

    return x / (1 + torch.exp(-x))


def _gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    import torch

    rounded = x.half().float()
    inner = math.sqrt(2 / math.pi) * rounded * (1 + 0.044715 * rounded * rounded)
    value = (0.5 * rounded * (1 + torch.tanh(inner))).half().float()
    return torch.where(x <= -10, torch.zeros_like(x), torch.where(x >= 10, x, value))


def swiglu(gate: Ref, up: Ref) -> Ref:
    """silu(gate) * up, both (rows, n)."""
    return gate.recording.append(Gate(Activation.SILU), (gate, up), gate.axis, gate.shape, in_place=(0, 1))


def geglu(gate: Ref, up: Ref) -> Ref:
    """gelu(gate) * up with the tanh form of GELU, both (rows, n)."""
    return gate.recording.append(Gate(Activation.GELU_TANH), (gate, up), gate.axis, gate.shape, in_place=(0, 1))
