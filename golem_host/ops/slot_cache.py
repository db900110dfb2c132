"""What attention reads and writes: keys and values of one layer for every slot."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class CacheType(Enum):
    """How a cache stores keys and values."""

    F16 = "f16"
    """Half precision."""
    F32 = "f32"
    """Single precision, for models whose results jump where a value crosses a bound."""
    Q8_0 = "q8_0"
    """Blocks of 32 along the head: int8 codes and a scale in half precision, 17/32 of the bytes of `f16`."""

    def check(self, dim: int) -> None:
        """Raises ValueError for a head of `dim` values that this type cannot store."""
        if self is CacheType.Q8_0 and dim % 32:
            raise ValueError(f"a q8_0 cache holds heads in blocks of 32 values; {dim} is no multiple of 32, use f16")

    def row_bytes(self, dim: int) -> int:
        """Bytes of one head's key or value of `dim` values."""
        if self is CacheType.Q8_0:
            return dim + dim // 16
        return 2 * dim if self is CacheType.F16 else 4 * dim


class Cache(Protocol):
    """Keys and values of one layer for every slot, allocated by a backend.

    A position lives in cell `position % cells`; with a sliding window there are fewer cells than positions. How the
    values lie in memory is the backend's affair; the torch twins use `write` and `read`.
    """

    slots: int
    cells: int
    kv_heads: int
    key_dim: int
    value_dim: int
    type: CacheType

    def write(self, slot: int, position: int, keys: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        """Store `keys` (kv_heads, key_dim) and `values` (kv_heads, value_dim) of one position, rounded to the type."""
        ...

    def read(self, slot: int, positions: NDArray[np.integer]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Keys (kv_heads, n, key_dim) and values (kv_heads, n, value_dim) at `positions` (n,)."""
        ...
