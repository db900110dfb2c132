"""One tensor of a model file: a name, a shape and a view of the mapped bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from golem_host.weights.dequant import dequantize, has_values
from golem_host.weights.errors import GgufError
from golem_host.weights.types import GgmlType


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor as it lies in the file; its bytes are read when they are touched, not before.

    `shape` is row-major: a weight of `torch.nn.Linear` is (out, in), and blocks run along the last axis. `type_id` is
    what the file says; `stored` pairs the type it names with the mapped bytes, and is None for a type this host does
    not know: then `name`, `shape` and `type_name` still answer, everything that needs the bytes raises GgufError.
    """

    name: str
    shape: tuple[int, ...]
    type_id: int
    path: Path
    stored: tuple[GgmlType, NDArray[np.uint8]] | None = field(repr=False)

    @property
    def type(self) -> GgmlType:
        """The storage type. Raises GgufError, naming tensor and id, when it is unknown."""
        return self._known()[0]

    @property
    def data(self) -> NDArray[np.uint8]:
        """The raw bytes, shape (nbytes,): a read-only view of the mapping. Raises GgufError for an unknown type."""
        return self._known()[1]

    @property
    def type_name(self) -> str:
        """`Q4_K`, or `unknown type 77`; never raises."""
        return f"unknown type {self.type_id}" if self.stored is None else self.stored[0].name

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor. Raises GgufError for an unknown type."""
        return len(self.data)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, that is of the last axis. Raises GgufError for an unknown type."""
        return self.shape[-1] // self.type.block_size * self.type.block_bytes

    @property
    def elements(self) -> int:
        """Number of values."""
        return math.prod(self.shape)

    def check_values(self) -> None:
        """Raise GgufError, naming tensor and type, when `float32` could not give the values."""
        if not has_values(self.type):
            raise GgufError(self.path, f"tensor '{self.name}': values of type {self.type_name} cannot be read")

    def float32(self, rows: slice | None = None) -> NDArray[np.float32]:
        """The values as a new float32 array of shape `shape`.

        `rows` selects along the first axis, as `array[rows]` would, and only those rows are dequantized. Raises
        GgufError for a type without a dequantizer, ValueError for `rows` on a tensor of one dimension.
        """
        shape, data = self.shape, self.data
        if rows is not None:
            if len(shape) < 2:
                raise ValueError(f"tensor '{self.name}' has one dimension, so no rows to select")
            data = data.reshape(shape[0], -1)[rows]
            shape = (len(data), *shape[1:])
        self.check_values()
        values = dequantize(self.type, data.reshape(-1))
        assert values is not None
        return values.reshape(shape)

    def gathered(self, ids: NDArray[np.integer]) -> NDArray[np.float32]:
        """Rows `ids` (n,) of a matrix as a new float32 array (n, columns); only these rows are read.

        Raises IndexError for a row that is not there, GgufError for a type without a dequantizer.
        """
        count, columns = self.shape
        if len(ids) and not (ids.min() >= 0 and ids.max() < count):
            raise IndexError(f"a row of {self.name} was asked for that is not there: {ids.min()}..{ids.max()}")
        self.check_values()
        values = dequantize(self.type, self.data.reshape(count, -1)[ids].reshape(-1))
        assert values is not None
        return values.reshape(len(ids), columns)

    def matrix(self, index: int, rows: slice = slice(None)) -> Tensor:
        """A view of matrix `index` of a stack of matrices (count, rows, columns), or of some of its rows.

        Raises GgufError for an unknown type, ValueError for a tensor that is no stack or has no such matrix.
        """
        if len(self.shape) != 3 or not 0 <= index < self.shape[0]:
            raise ValueError(f"tensor '{self.name}' of shape {self.shape} has no matrix {index}")
        data = self.data.reshape(*self.shape[:2], self.row_bytes)[index, rows]
        shape = (len(data), self.shape[2])
        return Tensor(f"{self.name}[{index}]", shape, self.type_id, self.path, (self.type, data.reshape(-1)))

    def part(self, first: int, count: int) -> Tensor:
        """A view of `count` rows from `first` on; of a vector, values.

        Raises GgufError for an unknown type and for a vector in blocks, ValueError for rows that are not there.
        """
        if not 0 <= first < first + count <= self.shape[0]:
            raise ValueError(f"tensor '{self.name}' of shape {self.shape} has no {count} rows from {first} on")
        if len(self.shape) == 1 and self.type.block_size > 1:
            raise GgufError(self.path, f"tensor '{self.name}': a vector of type {self.type_name} cannot be cut")
        data = self.data.reshape(self.shape[0], -1)[first : first + count]
        name, shape = f"{self.name}[{first}:{first + count}]", (count, *self.shape[1:])
        return Tensor(name, shape, self.type_id, self.path, (self.type, data.reshape(-1)))

    def _known(self) -> tuple[GgmlType, NDArray[np.uint8]]:
        if self.stored is None:
            raise GgufError(
                self.path,
                f"tensor '{self.name}' is stored as ggml type {self.type_id}, which this host does not know; "
                "get the model in a common type such as Q4_K, Q8_0 or F16",
            )
        return self.stored
