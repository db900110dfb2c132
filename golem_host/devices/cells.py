"""What every device's caches share: copies of one slot's cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class CellCopy:
    """The cells of one slot that held positions `first` to `end`, the last not included, as the device lays them out:
    `keys` (kv_heads, blocks, ...), `values` (kv_heads, positions, ...).
    """

    first: int
    end: int
    keys: NDArray[Any]
    values: NDArray[Any]

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes

    def part(self, end: int | None) -> int:
        """Where a part of it ends; all of it when None. Raises ValueError for an end that it does not have."""
        if end is None:
            return self.end
        if not self.first <= end <= self.end:
            raise ValueError(f"a copy of positions {self.first} to {self.end} has no part that ends at {end}")
        return end


def runs(first: int, end: int, cells: int) -> list[range]:
    """The cells of positions `first` to `end`: one range, or two when they go round the ring.

    Raises ValueError for positions that cannot all be in `cells` cells.
    """
    if not 0 <= first <= end <= first + cells:
        raise ValueError(f"positions {first} to {end} are not at once in a cache of {cells} cells")
    start, count = first % cells, end - first
    ahead = min(count, cells - start)
    return [run for run in (range(start, start + ahead), range(count - ahead)) if run]


def blocks(run: range, size: int) -> range:
    """The blocks of `size` cells that hold a run."""
    return range(run.start // size, -(-run.stop // size))
