"""Weights that take each other's place: a model larger than memory is computed layer by layer, in the memory of one.

A recording is made with the stand-ins of one layer; before each replay the values of the layer whose turn it is are
brought.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from golem_host.devices.cpu.resident import ALIGNMENT, Resident, ResidentWeights
from golem_host.weights.pages import drop_pages
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType


class StagedWeights:
    """Memory for one layer's weights. `tensors` are the stand-ins by name; `nbytes` is what they take.

    Matrices lie in the order in which products read them fastest, where the device has one.
    """

    def __init__(
        self,
        wanted: Mapping[str, tuple[GgmlType, tuple[int, ...]]],
        resident: ResidentWeights | None,
        run: Callable[..., None] | None,
    ) -> None:
        self._resident, self._run = resident, run
        self._laid: dict[str, bool] = {}
        sizes: dict[str, int] = {}
        for name, (kind, shape) in wanted.items():
            laid = 0 if resident is None or len(shape) != 2 else resident.laid_bytes(kind, *shape)
            self._laid[name] = laid > 0
            sizes[name] = laid or int(np.prod(shape)) // kind.block_size * kind.block_bytes
        rounded = {name: -(-size // ALIGNMENT) * ALIGNMENT for name, size in sizes.items()}
        self.nbytes = sum(rounded.values())
        memory = np.empty(self.nbytes + ALIGNMENT, np.uint8)
        at = -memory.ctypes.data % ALIGNMENT
        self._places: dict[str, NDArray[np.uint8]] = {}
        self.tensors: dict[str, Tensor] = {}
        for name, (kind, shape) in wanted.items():
            place = self._places[name] = memory[at : at + sizes[name]]
            at += rounded[name]
            tensor = self.tensors[name] = Tensor(name, shape, int(kind), Path(name), (kind, place))
            if resident is not None and self._laid[name]:
                resident.hold(tensor, Resident(place, laid=True))

    def put(self, name: str, values: NDArray[np.float32]) -> None:
        """Values of a small F32 weight. Raises ValueError for another shape."""
        tensor = self.tensors[name]
        if values.shape != tensor.shape or tensor.type is not GgmlType.F32:
            raise ValueError(f"values of shape {values.shape} for {name} of type {tensor.type_name} and {tensor.shape}")
        self._places[name].view(np.float32)[:] = values.reshape(-1)

    def part_rows(self, name: str, most_bytes: int) -> int:
        """Rows of a matrix to bring at a time when that shall be about `most_bytes`: whole tiles."""
        tensor = self.tensors[name]
        tile = 1 if self._resident is None or not self._laid[name] else self._resident.tile_rows(tensor.type)
        return max(1, most_bytes // (tile * _row_bytes(tensor))) * tile

    def bring(self, name: str, first: int, part: Tensor) -> None:
        """Rows `first` on of a matrix, a multiple of what `part_rows` says; on the device thread, between passes.

        Pages of a mapped file are given back. Raises ValueError for a part of another type or width.
        """
        tensor = self.tensors[name]
        if (
            part.type is not tensor.type
            or part.shape[1:] != tensor.shape[1:]
            or first + part.shape[0] > tensor.shape[0]
        ):
            raise ValueError(f"rows {first} on of {name} of {tensor.shape} cannot be {part.type_name} of {part.shape}")
        if self._laid[name]:
            assert self._resident is not None and self._run is not None
            begin = self._resident.laid_bytes(tensor.type, first, tensor.shape[1]) if first else 0
            self._resident.lay(self._run, part, self._places[name][begin:])
        else:
            begin = first * _row_bytes(tensor)
            self._places[name][begin : begin + part.nbytes] = part.data
        drop_pages(part.data)


def _row_bytes(tensor: Tensor) -> int:
    return tensor.row_bytes * int(np.prod(tensor.shape[1:-1]))
