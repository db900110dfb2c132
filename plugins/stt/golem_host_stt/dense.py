"""Weights as passes take them: float32 ones made of a file's, and matrices quantized at load."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from golem_host.api import ModelFileError
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType

_VALUES = 1 << 22
"""Values that are quantized at a time."""


def dense(name: str, values: NDArray[np.float32], path: Path) -> Tensor:
    """A float32 tensor of `values`."""
    data = np.ascontiguousarray(values, np.float32)
    return Tensor(name, data.shape, int(GgmlType.F32), path, (GgmlType.F32, data.reshape(-1).view(np.uint8)))


def quantized(tensor: Tensor) -> Tensor:
    """A matrix as q8_0, as ggml quantizes it: blocks of 32 values with a scale in half precision.

    Its bytes are a mapping of no file, whose pages go once a device has a copy of its own. Raises `ModelFileError` for
    rows that are no whole blocks.
    """
    rows, columns = tensor.shape
    if columns % 32:
        raise ModelFileError(tensor.path, f"{tensor.name} has rows of {columns} values, which q8_0 cannot hold")
    row_bytes = columns // 32 * 34
    data = np.frombuffer(mmap.mmap(-1, rows * row_bytes), np.uint8)
    step = max(1, _VALUES // columns)
    for first in range(0, rows, step):
        blocks = tensor.float32(slice(first, first + step)).reshape(-1, 32)
        largest = np.abs(blocks).max(-1, keepdims=True)
        scales = (largest / np.float32(127)).astype(np.float16)
        with np.errstate(divide="ignore"):
            inverse = np.where(largest > 0, np.float32(127) / largest, np.float32(0))
        out = data[first * row_bytes : (first + step) * row_bytes].reshape(-1, 34)
        out[:, :2] = scales.view(np.uint8)
        out[:, 2:] = np.rint(blocks * inverse).astype(np.int8).view(np.uint8)
    return Tensor(tensor.name, tensor.shape, int(GgmlType.Q8_0), tensor.path, (GgmlType.Q8_0, data))
