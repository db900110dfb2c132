"""Dispatches of operations on rows: norms, gates, sums and scalings, parts and choices of rows, routes of experts."""

from __future__ import annotations

import math
from typing import Any

from golem_host.devices.vulkan.dispatch import LIVE, Dispatch, Lower, Lowering, Vector
from golem_host.ops.delta import Decay
from golem_host.ops.elementwise import Add, Scale, Softcap
from golem_host.ops.embedding import Select
from golem_host.ops.experts import Mix, Route
from golem_host.ops.gate import Activation, Gate
from golem_host.ops.hadamard import Hadamard
from golem_host.ops.narrow import Narrow
from golem_host.ops.norm import L2Norm, LayerNorm, RmsNorm
from golem_host.ops.recording import Axis, Ref
from golem_host.ops.temperature import Temperature
from golem_host.weights.tensor import Tensor

THREADS = 128
"""Of a workgroup: what every device has."""


def vector(tensor: Tensor | None) -> Any:
    """A small weight, or something that may be bound in its place where a shader has a constant for not reading it."""
    return LIVE if tensor is None else Vector(tensor)


def by_value(
    kernel: str,
    out: Ref,
    inputs: list[Any],
    numbers: list[int | float | Axis],
    *,
    constants: tuple[int, ...] = (),
    in_place: tuple[Ref, ...] = (),
) -> list[Dispatch]:
    """A thread for each value of `out`, workgroups of one row. The push constants begin with the axis and the width."""
    return [
        Dispatch(
            kernel,
            (THREADS, *constants),
            [out, *inputs, LIVE],
            [out.axis, out.width, *numbers],
            (-(-out.width // THREADS), out.axis.capacity, 1),
            out.axis,
            [each for each in inputs if isinstance(each, Ref)],
            out,
            in_place=list(in_place),
        )
    ]


def _rms_norm(_: Lowering, op: RmsNorm, out: Ref, x: Ref, weight: Tensor | None) -> list[Dispatch]:
    n = x.shape[-1]
    groups = x.width // n
    numbers = [out.axis, groups, n, op.eps]
    buffers = [out, x, vector(weight), LIVE]
    grid = (groups, out.axis.capacity, 1)
    constants = (_norm_threads(n), weight is not None)
    return [Dispatch("rms_norm", constants, buffers, numbers, grid, out.axis, [x], out, in_place=[x])]


def _layer_norm(_: Lowering, op: LayerNorm, out: Ref, x: Ref, weight: Tensor, bias: Tensor | None) -> list[Dispatch]:
    buffers = [out, x, Vector(weight), vector(bias), LIVE]
    constants, numbers = (_norm_threads(x.width), bias is not None), [out.axis, x.width, op.eps]
    grid = (out.axis.capacity, 1, 1)
    return [Dispatch("layer_norm", constants, buffers, numbers, grid, out.axis, [x], out, in_place=[x])]


def _l2_norm(_: Lowering, op: L2Norm, out: Ref, x: Ref) -> list[Dispatch]:
    numbers = [out.axis, op.groups, op.size, x.width, op.eps]
    grid = (op.groups + (op.groups * op.size < x.width), out.axis.capacity, 1)
    return [
        Dispatch("l2_norm", (_norm_threads(op.size),), [out, x, LIVE], numbers, grid, out.axis, [x], out, in_place=[x])
    ]


def _norm_threads(n: int) -> int:
    """Threads that sum n values: the order of the sum, so it may depend on nothing else."""
    return 32 if n <= 128 else THREADS


def _gate(_: Lowering, op: Gate, out: Ref, gate: Ref, up: Ref | None = None) -> list[Dispatch] | None:
    if op.activation is Activation.ELU:
        return None
    constants = (int(op.activation), up is not None)
    if up is None:
        return by_value("gate", out, [gate, LIVE], [], constants=constants, in_place=(gate,))
    return by_value("gate", out, [gate, up], [], constants=constants, in_place=(gate, up))


def _add(_: Lowering, op: Add, out: Ref, x: Ref, y: Ref) -> list[Dispatch]:
    return by_value("add", out, [x, y], [], in_place=(x, y))


def _scale(_: Lowering, op: Scale, out: Ref, x: Ref) -> list[Dispatch]:
    return by_value("scale", out, [x], [float(op.factor)], in_place=(x,))


def _temperature(_: Lowering, op: Temperature, out: Ref, x: Ref, at: Ref) -> list[Dispatch]:
    return by_value("temperature", out, [x, at], [op.period, float(op.strength)], in_place=(x,))


def _softcap(_: Lowering, op: Softcap, out: Ref, x: Ref) -> list[Dispatch]:
    return by_value("softcap", out, [x], [float(op.cap)], in_place=(x,))


def _decay(_: Lowering, op: Decay, out: Ref, x: Ref, rate: Tensor, bias: Tensor) -> list[Dispatch]:
    return by_value("decay", out, [x, Vector(rate), Vector(bias)], [], in_place=(x,))


def _hadamard(_: Lowering, op: Hadamard, out: Ref, x: Ref, signs: Tensor | None) -> list[Dispatch]:
    constants = (THREADS, op.block, signs is not None, op.signs_after)
    numbers = [out.axis, out.width, *op.exchanged, 1 / math.sqrt(op.block)]
    grid = (out.width // op.block, out.axis.capacity, 1)
    return [Dispatch("hadamard", constants, [out, x, vector(signs), LIVE], numbers, grid, out.axis, [x], out)]


def _narrow(_: Lowering, op: Narrow, out: Ref, x: Ref) -> list[Dispatch]:
    return by_value("narrow", out, [x], [op.size, x.shape[-1], op.first])


def _select(_: Lowering, op: Select, out: Ref, x: Ref, index: Ref) -> list[Dispatch]:
    return by_value("select", out, [x, index], [x.axis])


def _mix(_: Lowering, op: Mix, out: Ref, y: Ref, routes: Ref) -> list[Dispatch]:
    return by_value("mix", out, [y, routes], [y.shape[0]])


def _route(_: Lowering, op: Route, out: Ref, logits: Ref, scale: Tensor | None) -> list[Dispatch]:
    constants = (THREADS, int(op.weighting), scale is not None)
    buffers = [out, logits, vector(scale), LIVE]
    numbers = [out.axis, logits.width, op.used, float(op.factor)]
    return [Dispatch("route", constants, buffers, numbers, (out.axis.capacity, 1, 1), out.axis, [logits], out)]


LOWER: dict[type, Lower] = {
    RmsNorm: _rms_norm,
    LayerNorm: _layer_norm,
    L2Norm: _l2_norm,
    Gate: _gate,
    Add: _add,
    Scale: _scale,
    Softcap: _softcap,
    Temperature: _temperature,
    Decay: _decay,
    Hadamard: _hadamard,
    Narrow: _narrow,
    Select: _select,
    Mix: _mix,
    Route: _route,
}
