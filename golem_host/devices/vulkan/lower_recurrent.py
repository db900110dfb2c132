"""Dispatches of operations that carry a slot's state from row to row: causal convolution and gated delta rule.

That rows follow their states is checked on the host before a pass is submitted; shaders only stay inside the state.
"""

from __future__ import annotations

from golem_host.devices.vulkan.dispatch import LIVE, Dispatch, Lower, Lowering, Transposed
from golem_host.devices.vulkan.lower_elementwise import THREADS
from golem_host.devices.vulkan.state import VulkanState
from golem_host.ops.conv import CausalConv
from golem_host.ops.delta import GatedDelta
from golem_host.ops.recording import Ref
from golem_host.weights.tensor import Tensor

DELTA_COLUMNS = 32
"""Columns of a head's state that a workgroup takes."""


def links(low: Lowering, slots: Ref) -> Ref:
    """int32 (rows, 2): for each row of the pass the row of the same slot before it and after it, -1 for none."""

    def make() -> tuple[Ref, list[Dispatch]]:
        axis = slots.axis
        out = low.scratch(axis, 2, dtype="i32")
        grid = (-(-axis.capacity // 64), 1, 1)
        return out, [Dispatch("links", (64,), [out, slots, LIVE], [axis], grid, axis, [slots], out)]

    return low.shared(("links", slots.root), make)


def _conv(
    low: Lowering, op: CausalConv, out: Ref, x: Ref, weight: Tensor, state: VulkanState, slots: Ref, positions: Ref
) -> list[Dispatch]:
    channels, taps = weight.shape
    linked = links(low, slots)
    reads = [x, linked, slots, positions]
    buffers = [out, x, Transposed(weight), state.values, linked, slots, positions, LIVE]
    numbers = [out.axis, state.slots, channels]
    grid = (-(-channels // THREADS), out.axis.capacity, 1)

    def run(last: bool) -> Dispatch:
        constants = (THREADS, taps, last)
        return Dispatch("causal_conv", constants, buffers, numbers, grid, out.axis, reads, out, stores=[state.values])

    return [run(False)] if out.axis.capacity == 1 else [run(False), run(True)]


def _delta(
    low: Lowering,
    op: GatedDelta,
    out: Ref,
    qkv: Ref,
    decay: Ref,
    beta: Ref,
    state: VulkanState,
    slots: Ref,
    positions: Ref,
) -> list[Dispatch]:
    heads, key_dim, value_dim = state.shape
    linked = links(low, slots)
    buffers = [out, qkv, decay, beta, state.values, linked, slots, positions, LIVE]
    numbers = [out.axis, state.slots, op.key_heads, heads, value_dim, op.scale]
    grid = (-(-value_dim // DELTA_COLUMNS), heads, out.axis.capacity)
    reads = [qkv, decay, beta, linked, slots, positions]
    constants = (THREADS, DELTA_COLUMNS, key_dim)
    return [Dispatch("gated_delta", constants, buffers, numbers, grid, out.axis, reads, out, stores=[state.values])]


LOWER: dict[type, Lower] = {CausalConv: _conv, GatedDelta: _delta}
