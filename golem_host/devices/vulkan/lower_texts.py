"""Dispatches of operations on packed texts: attention within each, means of their rows."""

from __future__ import annotations

from golem_host.devices.vulkan.dispatch import LIVE, Dispatch, Lower, Lowering
from golem_host.devices.vulkan.lower_attention import SHARED_MEMORY, Heads, Tile
from golem_host.devices.vulkan.lower_elementwise import THREADS, by_value
from golem_host.ops.recording import Ref
from golem_host.ops.texts import Mean, TextAttention


def _bounds(low: Lowering, texts: Ref) -> Ref:
    """int32 (rows, 2): the first row of each row's text and the one after its last."""

    def make() -> tuple[Ref, list[Dispatch]]:
        axis = texts.axis
        out = low.scratch(axis, 2, dtype="i32")
        grid = (-(-axis.capacity // 64), 1, 1)
        return out, [Dispatch("text_bounds", (64,), [out, texts, LIVE], [axis], grid, axis, [texts], out)]

    return low.shared(("text bounds", texts.root), make)


def _text_attention(low: Lowering, op: TextAttention, out: Ref, q: Ref, k: Ref, v: Ref, texts: Ref) -> list[Dispatch]:
    heads, dim = q.shape
    tile = Tile.of(Heads(heads, 1, dim, dim), out.axis.capacity, 1, min(low.gpu.limits.shared_memory, SHARED_MEMORY))
    bounds = _bounds(low, texts)
    constants = (THREADS, dim, tile.rows, tile.scored, tile.summed, op.window)
    grid = (1, heads, out.axis.capacity)
    buffers, numbers = [out, q, k, v, bounds, LIVE], [out.axis, heads, float(op.scale)]
    return [Dispatch("text_attention", constants, buffers, numbers, grid, out.axis, [q, k, v, bounds], out)]


def _mean(_: Lowering, op: Mean, out: Ref, x: Ref, first: Ref, count: Ref) -> list[Dispatch]:
    return by_value("mean", out, [x, first, count], [x.axis])


LOWER: dict[type, Lower] = {TextAttention: _text_attention, Mean: _mean}
