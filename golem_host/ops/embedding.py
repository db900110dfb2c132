"""Rows of tables: embeddings by id, and rows of a pass by index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from golem_host.ops.recording import Ref
from golem_host.weights.tensor import Tensor

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Rows:
    """Rows of a (quantized) table, dequantized to float32."""

    def twin(self, table: Tensor, ids: torch.Tensor) -> torch.Tensor:
        import torch

        found = ids.numpy()
        if len(found) and not (found.min() >= 0 and found.max() < table.shape[0]):
            raise IndexError(f"a row of {table.name} was asked for that is not there: {found.min()}..{found.max()}")
        rows = [table.float32(slice(int(i), int(i) + 1)) for i in found]
        return torch.from_numpy(np.concatenate(rows))


def rows(table: Tensor, ids: Ref) -> Ref:
    """float32 (rows, n) of a table (count, n) at int32 `ids` (rows,). An id outside the table fails the pass."""
    return ids.recording.append(Rows(), (table, ids), ids.axis, (table.shape[1],))


@dataclass(frozen=True)
class Select:
    """Rows of another tensor of the pass."""

    def twin(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x[index.long()]


def select(x: Ref, index: Ref) -> Ref:
    """Rows of `x` (rows, *shape) at int32 `index` (m,): (m, *shape) on the index's axis."""
    return x.recording.append(Select(), (x, index), index.axis, x.shape)
