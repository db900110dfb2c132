"""Activations, alone and as gates: SwiGLU and GeGLU (Shazeer 2020), sigmoid, GELU (Hendrycks and Gimpel 2016), ReLU,
ELU (Clevert et al. 2015)."""

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
    SIGMOID = 2
    GELU_ERF = 3
    RELU = 4
    ELU = 5


@dataclass(frozen=True)
class Gate:
    """act(gate) * up, or act(gate) alone.

    The tanh GELU takes and gives half precision, as ggml's table does, so that answers agree.
    """

    activation: Activation

    def twin(self, gate: torch.Tensor, up: torch.Tensor | None = None) -> torch.Tensor:
        acts = {Activation.SILU: _silu, Activation.GELU_TANH: _gelu_tanh, Activation.SIGMOID: _sigmoid}
        acts |= {Activation.GELU_ERF: _gelu_erf, Activation.RELU: _relu, Activation.ELU: _elu}
        active = rowwise(acts[self.activation], gate)
        return active if up is None else active * up


def _silu(x: torch.Tensor) -> torch.Tensor:
    import torch

    return x / (1 + torch.exp(-x))


def _sigmoid(x: torch.Tensor) -> torch.Tensor:
    import torch

    return 1 / (1 + torch.exp(-x))


def _gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    import torch

    rounded = x.half().float()
    inner = math.sqrt(2 / math.pi) * rounded * (1 + 0.044715 * rounded * rounded)
    value = (0.5 * rounded * (1 + torch.tanh(inner))).half().float()
    return torch.where(x <= -10, torch.zeros_like(x), torch.where(x >= 10, x, value))


def _gelu_erf(x: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.nn.functional.gelu(x.double()).float()


def _relu(x: torch.Tensor) -> torch.Tensor:
    return x.relu()


def _elu(x: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.where(x < 0, torch.expm1(x.clamp(max=0)), x)


def swiglu(gate: Ref, up: Ref) -> Ref:
    """silu(gate) * up, both (rows, n)."""
    return gate.recording.append(Gate(Activation.SILU), (gate, up), gate.axis, gate.shape, in_place=(0, 1))


def geglu(gate: Ref, up: Ref) -> Ref:
    """gelu(gate) * up with the tanh form of GELU, both (rows, n)."""
    return gate.recording.append(Gate(Activation.GELU_TANH), (gate, up), gate.axis, gate.shape, in_place=(0, 1))


def gelu_gate(gate: Ref, up: Ref) -> Ref:
    """gelu(gate) * up with the exact GELU, both (rows, n)."""
    return gate.recording.append(Gate(Activation.GELU_ERF), (gate, up), gate.axis, gate.shape, in_place=(0, 1))


def sigmoid_gate(gate: Ref, up: Ref) -> Ref:
    """sigmoid(gate) * up, both (rows, n)."""
    if gate.width != up.width:
        raise ValueError(f"a gate of {gate.width} values for rows of {up.width}")
    return up.recording.append(Gate(Activation.SIGMOID), (gate, up), up.axis, up.shape, in_place=(0, 1))


def sigmoid(x: Ref) -> Ref:
    """1 / (1 + exp(-x)), value by value."""
    return x.recording.append(Gate(Activation.SIGMOID), (x,), x.axis, x.shape, in_place=(0,))


def gelu(x: Ref) -> Ref:
    """x times the normal distribution function."""
    return x.recording.append(Gate(Activation.GELU_ERF), (x,), x.axis, x.shape, in_place=(0,))


def gelu_tanh(x: Ref) -> Ref:
    """The tanh form of GELU, taken and given in half precision as ggml does."""
    return x.recording.append(Gate(Activation.GELU_TANH), (x,), x.axis, x.shape, in_place=(0,))


def silu(x: Ref) -> Ref:
    """x / (1 + exp(-x)), value by value."""
    return x.recording.append(Gate(Activation.SILU), (x,), x.axis, x.shape, in_place=(0,))


def relu(x: Ref) -> Ref:
    """max(x, 0), value by value."""
    return x.recording.append(Gate(Activation.RELU), (x,), x.axis, x.shape, in_place=(0,))


def elu(x: Ref) -> Ref:
    """x above 0, else e^x - 1, value by value."""
    return x.recording.append(Gate(Activation.ELU), (x,), x.axis, x.shape, in_place=(0,))


@dataclass(frozen=True)
class FloatGelu:
    """The tanh form of GELU in float32, as torch computes it."""

    def twin(self, x: torch.Tensor) -> torch.Tensor:
        import torch

        return rowwise(lambda row: torch.nn.functional.gelu(row, approximate="tanh"), x)


def float_gelu_tanh(x: Ref) -> Ref:
    """The tanh form of GELU without rounding to half precision, value by value."""
    return x.recording.append(FloatGelu(), (x,), x.axis, x.shape, in_place=(0,))
