"""Weights held in memory of their own, where products read them fastest: re-laid for this processor, on large pages.

A pass reads every weight once, so memory is what bounds it. Pages of a mapped file are small, and each costs a
translation; and rows as a file stores them must be transposed in registers each time they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeGuard
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from golem_host.kernels.library import Kernels, Op
from golem_host.ops.experts import ExpertLinear
from golem_host.ops.linear import Linear
from golem_host.ops.recording import Recording
from golem_host.weights.pages import drop_pages
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType

ALIGNMENT = 64
"""Bytes: re-laid weights begin at a cache line."""


def multipliers(recording: Recording) -> list[Tensor]:
    """The weights that a recording's products read, each once."""
    products = [command for command in recording.commands if isinstance(command.op, Linear | ExpertLinear)]
    return list(dict.fromkeys(each for command in products for each in command.inputs if _is_matrix(each)))


def _is_matrix(each: object) -> TypeGuard[Tensor]:
    return isinstance(each, Tensor) and len(each.shape) > 1  # a bias has one dimension


@dataclass(frozen=True)
class Resident:
    """The bytes of one weight in memory; `laid` says that they are in the kernels' order, not in the file's."""

    data: NDArray[np.uint8]
    laid: bool


class ResidentWeights:
    """The weights that are in memory, for as long as their tensors live."""

    def __init__(self, kernels: Kernels, threads: int) -> None:
        self._kernels = kernels
        self._threads = threads
        self._held: WeakKeyDictionary[Tensor, Resident] = WeakKeyDictionary()

    def hold(self, tensor: Tensor, held: Resident) -> None:
        """Say where a weight lies that somebody else brought into memory."""
        self._held[tensor] = held

    def get(self, tensor: Tensor) -> Resident:
        """The weight where it lies in memory, else where it lies in the file."""
        return self._held.get(tensor) or Resident(tensor.data, laid=False)

    def take(self, tensors: Iterable[Tensor], progress: Callable[[float], None]) -> None:
        """Bring weights into memory; `progress` takes the share done. The file's pages are given back one by one.

        May run on any thread, beside a pass: it has compute threads of its own.
        """
        wanted = [each for each in tensors if each not in self._held and self._kernels.act_kind(each.type) >= 0]
        total = sum(self._size(tensor) for tensor in wanted)
        if not total:
            return
        arena = np.empty(total + ALIGNMENT, np.uint8)
        at = -arena.ctypes.data % ALIGNMENT
        done = 0
        with self._kernels.pool(self._threads) as pool:
            for tensor in wanted:
                size = self._size(tensor)
                held = Resident(arena[at : at + size], laid=self._laid(tensor) > 0)
                self._bring(pool.run, tensor, held)
                self._held[tensor] = held
                drop_pages(tensor.data)
                at += size
                done += size
                progress(done / total)

    def _bring(self, run: Callable[..., None], tensor: Tensor, held: Resident) -> None:
        if held.laid:
            self.lay(run, tensor, held.data)
        else:
            held.data[: tensor.nbytes] = tensor.data

    def lay(self, run: Callable[..., None], tensor: Tensor, place: NDArray[np.uint8]) -> None:
        """Write a matrix to `place` in the kernels' order; `run` is that of a pool of compute threads."""
        ffi = self._kernels.ffi
        command = ffi.new("golem_cmd *", {"op": Op.LAY, "axis": -1, "rows": _rows(tensor)})
        command.p[0] = ffi.cast("void *", place.ctypes.data)
        command.p[1] = ffi.cast("void *", tensor.data.ctypes.data)
        command.i[0], command.i[1] = tensor.shape[-1], tensor.type
        run(command, 1, ffi.NULL)

    def _size(self, tensor: Tensor) -> int:
        size = self._laid(tensor) or tensor.nbytes
        return -(-size // ALIGNMENT) * ALIGNMENT

    def tile_rows(self, kind: GgmlType) -> int:
        """Rows that are laid together; 0 where the type stays as stored."""
        return self._kernels.tile_rows(kind)

    def laid_bytes(self, kind: GgmlType, rows: int, columns: int) -> int:
        """Bytes of a matrix when re-laid, 0 where it stays as stored."""
        return self._kernels.laid_bytes(kind, rows, columns) if self._kernels.act_kind(kind) >= 0 else 0

    def _laid(self, tensor: Tensor) -> int:
        """Bytes when re-laid, 0 where it stays as stored: experts' matrices must each be whole tiles."""
        height = self._kernels.tile_rows(tensor.type)
        if not height or (len(tensor.shape) == 3 and tensor.shape[1] % height):
            return 0
        return self._kernels.laid_bytes(tensor.type, _rows(tensor), tensor.shape[-1])


def _rows(tensor: Tensor) -> int:
    return tensor.elements // tensor.shape[-1]
