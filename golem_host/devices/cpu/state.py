"""Recurrent state of one layer in host memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from golem_host.devices.state import Checkpoint


class CpuState:
    """float32 `values` (slots, *shape), and int32 `taken` (slots,): how many positions each slot's state has seen.

    Memory is taken from the system page by page as slots are first written.
    """

    def __init__(self, *, slots: int, shape: tuple[int, ...]) -> None:
        self.slots = slots
        self.shape = shape
        self.values: NDArray[np.float32] = np.zeros((slots, *shape), np.float32)
        self.taken: NDArray[np.int32] = np.zeros(slots, np.int32)

    def copy_slot(self, source: int, target: int) -> None:
        """Give `target` what `source` holds."""
        self.values[target] = self.values[source]
        self.taken[target] = self.taken[source]

    def save(self, slot: int) -> Checkpoint:
        """A copy of what the slot holds."""
        return Checkpoint(int(self.taken[slot]), self.values[slot].copy())

    def restore(self, slot: int, checkpoint: Checkpoint) -> None:
        """Put a checkpoint of this layer, of whichever slot, into the slot: its next row is the checkpoint's position.

        Raises ValueError for one of another shape.
        """
        checkpoint.check(self.shape)
        self.values[slot] = checkpoint.values
        self.taken[slot] = checkpoint.position
