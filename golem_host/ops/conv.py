"""The short causal convolution along a slot's positions, as gated delta net layers have it before their heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from golem_host.ops.recording import Ref
from golem_host.ops.state import State, follow
from golem_host.weights.tensor import Tensor

if TYPE_CHECKING:
    import torch

MAX_TAPS = 16
"""The widest convolution the kernels have."""


@dataclass(frozen=True)
class CausalConv:
    """silu(sum of the channel's last inputs, each times its tap): depthwise, without bias."""

    def twin(
        self, x: torch.Tensor, weight: Tensor, state: State, slots: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        import torch

        taps = torch.from_numpy(weight.float32()).T
        values = torch.from_numpy(state.values)
        out = torch.empty_like(x)
        for row, (slot, fresh) in enumerate(follow(state, slots, positions)):
            if fresh:
                values[slot] = 0
            window = torch.cat([values[slot], x[row : row + 1]])
            mixed = (window * taps).sum(0)
            out[row] = mixed / (1 + torch.exp(-mixed))
            values[slot] = window[1:]
        return out


def causal_conv(x: Ref, weight: Tensor, state: State, slots: Ref, positions: Ref) -> Ref:
    """(rows, channels) from `x` (rows, channels) and `weight` (channels, taps), the last tap for the row itself.

    `state` (taps - 1, channels) keeps the inputs before the next row, oldest first; `State` says which int32 `slots`
    and `positions` (rows,) a pass may have.
    """
    if len(x.shape) != 1 or len(weight.shape) != 2 or weight.shape[0] != x.width:
        raise ValueError(f"{weight.name} of shape {weight.shape} does not take rows of shape {x.shape}")
    taps = weight.shape[1]
    if not 2 <= taps <= MAX_TAPS:
        raise ValueError(f"{weight.name} has {taps} taps; 2 to {MAX_TAPS} are possible")
    if state.shape != (taps - 1, x.width):
        raise ValueError(f"a state of shape {state.shape} for {weight.name} of shape {weight.shape}")
    return x.recording.append(CausalConv(), (x, weight, state, slots, positions), x.axis, x.shape)
