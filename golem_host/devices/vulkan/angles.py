"""Angles of rotary embedding, from the CPU's kernels: cos and sin of a library are no other device's to the bit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from golem_host.devices.cpu import CpuBackend
from golem_host.ops.recording import Recording
from golem_host.ops.rope import RopeAngles
from golem_host.weights.tensor import Tensor

BLOCK = 256
"""Positions whose angles are computed when the first of them is asked for."""


class Angles:
    """cos and sin of every pair's angle at any position; those of blocks of positions that were asked for are kept."""

    def __init__(self, op: RopeAngles, factors: Tensor | None) -> None:
        self._pairs = op.dims // 2
        axes = 1 if op.sections is None else 4
        recording = Recording()
        axis = recording.axis("rows", BLOCK)
        positions = recording.input("positions", axis, *([] if axes == 1 else [axes]))
        recording.output("angles", recording.append(op, (positions, factors), axis, (self._pairs, 2)))
        self._program = CpuBackend(threads=1).compile(recording)
        turned_by = [0 if op.sections is None else op.sections.axis_of(pair) for pair in range(self._pairs)]
        self._pairs_of = [np.flatnonzero(np.array(turned_by) == each) for each in range(axes)]
        self._blocks: dict[int, NDArray[np.float32]] = {}

    def at(self, positions: NDArray[np.int32]) -> NDArray[np.float32]:
        """cos and sin (rows, pairs, 2) at `positions` (rows,), or (rows, 4) by sections."""
        if positions.ndim == 1:
            return self._taken(positions)
        angles = np.empty((len(positions), self._pairs, 2), np.float32)
        for axis, pairs in enumerate(self._pairs_of):
            angles[:, pairs] = self._taken(positions[:, axis])[:, pairs]
        return angles

    def _taken(self, positions: NDArray[np.int32]) -> NDArray[np.float32]:
        taken = np.empty((len(positions), self._pairs, 2), np.float32)
        blocks = positions // BLOCK
        for block in set(blocks.tolist()):
            here = blocks == block
            taken[here] = self._block(block)[positions[here] - block * BLOCK]
        return taken

    def _block(self, number: int) -> NDArray[np.float32]:
        if number not in self._blocks:
            given = self._program.inputs["positions"]
            given[:] = (number * BLOCK + np.arange(BLOCK, dtype=np.int64)).reshape(-1, *[1] * (given.ndim - 1))
            self._program.run({"rows": BLOCK})
            self._blocks[number] = self._program.output("angles").copy()
        return self._blocks[number]
