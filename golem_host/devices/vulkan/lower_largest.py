"""Dispatches of the search for the largest logits."""

from __future__ import annotations

from golem_host.devices.vulkan.dispatch import LIVE, Dispatch, Lower, Lowering
from golem_host.devices.vulkan.lower_elementwise import THREADS
from golem_host.kernels.library import MAXIMA_BLOCK
from golem_host.ops.largest import ArgLargest, BlockMaxima
from golem_host.ops.recording import Ref


def _block_maxima(_: Lowering, op: BlockMaxima, out: Ref, x: Ref) -> list[Dispatch]:
    numbers = [out.axis, x.width, op.count, out.width]
    grid = (out.width, out.axis.capacity, 1)
    return [Dispatch("block_maxima", (THREADS, MAXIMA_BLOCK), [out, x, LIVE], numbers, grid, out.axis, [x], out)]


def _arg_largest(_: Lowering, op: ArgLargest, out: Ref, x: Ref, maxima: Ref) -> list[Dispatch]:
    numbers = [out.axis, x.width, op.count, maxima.width]
    buffers, grid = [out, x, maxima, LIVE], (out.axis.capacity, 1, 1)
    return [Dispatch("arg_largest", (THREADS, MAXIMA_BLOCK), buffers, numbers, grid, out.axis, [x, maxima], out)]


LOWER: dict[type, Lower] = {BlockMaxima: _block_maxima, ArgLargest: _arg_largest}
