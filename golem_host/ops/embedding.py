"""Rows of tables: embeddings by id, and rows of a pass by index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from golem_host.ops.recording import Ref
from golem_host.weights.tensor import Tensor

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Rows:
    """Rows of a (quantized) table, dequantized to float32. `in_file`: a device keeps no copy of the table."""

    in_file: bool = False

    def twin(self, table: Tensor, ids: torch.Tensor) -> torch.Tensor:
        import torch

        return torch.from_numpy(table.gathered(ids.numpy()))


def rows(table: Tensor, ids: Ref, *, in_file: bool = False) -> Ref:
    """float32 (rows, n) of a table (count, n) at int32 `ids` (rows,). An id outside the table fails the pass.

    `in_file` leaves the table in the file on every device, for one that is large beside what is ever read of it.
    """
    return ids.recording.append(Rows(in_file), (table, ids), ids.axis, (table.shape[1],))


@dataclass(frozen=True)
class Select:
    """Rows of another tensor of the pass."""

    def twin(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x[index.long()]


def select(x: Ref, index: Ref) -> Ref:
    """Rows of `x` (rows, *shape) at int32 `index` (m,): (m, *shape) on the index's axis, float32 or int32 as `x` is."""
    if x.dtype == "u8":
        raise ValueError("rows of bytes cannot be selected")
    return x.recording.append(Select(), (x, index), index.axis, x.shape, dtype=x.dtype)
