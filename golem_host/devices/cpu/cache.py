"""Keys and values of one layer in host memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class CpuCache:
    """float16 keys (slots, kv_heads, cells, key_dim) and values (slots, kv_heads, cells, value_dim).

    A position lives in cell `position % cells`. Memory is taken from the system page by page as cells are first
    written.
    """

    def __init__(self, *, slots: int, cells: int, kv_heads: int, key_dim: int, value_dim: int) -> None:
        self.slots = slots
        self.cells = cells
        self.kv_heads = kv_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.keys: NDArray[np.float16] = np.zeros((slots, kv_heads, cells, key_dim), np.float16)
        self.values: NDArray[np.float16] = np.zeros((slots, kv_heads, cells, value_dim), np.float16)

    def copy_slot(self, source: int, target: int) -> None:
        """Give `target` all that `source` holds."""
        self.keys[target] = self.keys[source]
        self.values[target] = self.values[source]
