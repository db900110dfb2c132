"""The windows of a strided causal convolution over a stream that comes in pieces; a product does the rest.

A convolution y[o] = W x[o * stride - past .. o * stride + stride - 1], past = taps - stride, is `linear` of these
windows and W as (out, taps * channels). What a pass does not see any more of the stream lies in a state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from golem_host.ops.recording import Axis, Ref
from golem_host.ops.state import State, follow

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class CausalWindows:
    """`repeat`: before the first step of a stream lie copies of it, else zeros."""

    steps: int
    taps: int
    stride: int
    repeat: bool

    def twin(self, x: torch.Tensor, state: State, slots: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        import torch

        pieces = x.reshape(len(slots), self.steps, -1)
        values = torch.from_numpy(state.values)
        out = torch.empty(len(slots), self.steps // self.stride, self.taps, pieces.shape[-1])
        for row, (slot, fresh) in enumerate(follow(state, slots, positions)):
            if fresh:
                values[slot] = pieces[row, 0] if self.repeat else 0
            stream = torch.cat([values[slot], pieces[row]])
            out[row] = stream.unfold(0, self.taps, self.stride).transpose(1, 2)
            values[slot] = stream[len(stream) - (self.taps - self.stride) :]
        return out.flatten(0, 1).flatten(1)


def causal_windows(
    x: Ref, state: State, slots: Ref, positions: Ref, *, taps: int, stride: int, axis: Axis, repeat: bool = False
) -> Ref:
    """(outputs, taps * n) on `axis` from `x` (steps, n): each of the `slots` rows of a pass is as many steps.

    `state` (taps - stride, n) keeps the steps before the next row, oldest first; `State` says which int32 `slots` and
    `positions` (rows,), counted in rows, a pass may have. A replay has live rows, steps and outputs in that proportion.
    """
    rows, n = slots.axis.capacity, x.width
    steps = x.axis.capacity // rows
    if x.axis.capacity != rows * steps or steps < 1 or stride < 1 or steps % stride or taps <= stride:
        raise ValueError(f"{x.axis.capacity} steps in {rows} rows, {taps} taps, a stride of {stride}")
    if axis.capacity * stride != x.axis.capacity:
        raise ValueError(f"{axis.capacity} outputs of {x.axis.capacity} steps with a stride of {stride}")
    if state.shape != (taps - stride, n):
        raise ValueError(f"a state of shape {state.shape} for {taps} taps, a stride of {stride}, steps of {n} values")
    op = CausalWindows(steps, taps, stride, repeat)
    return x.recording.append(op, (x, state, slots, positions), axis, (taps * n,))
