"""From pooled rows to the vectors of an answer: cut, normalised, written. All in NumPy, row by row."""

from __future__ import annotations

import base64
import math

import numpy as np
from numpy.typing import NDArray

from golem_host.http.writing import json_bytes

Rows = NDArray[np.float32]

RAW, LARGEST, EUCLIDEAN = -1, 0, 2
"""llama-server's numbers for kinds of norms (`embd_normalize`); any other is the p of a p-norm."""
_INT16 = 32760.0
"""What the largest component becomes with `LARGEST`."""
_SMALLEST = 1e-12


def unit(rows: Rows, dimensions: int | None = None) -> Rows:
    """Rows (texts, width) cut to their first `dimensions` components, each of length 1 (zeros stay zeros)."""
    return normalized(rows[:, :dimensions], EUCLIDEAN)


def normalized(rows: Rows, kind: int) -> Rows:
    """Rows (texts, width) divided by their norm, which is summed in double (`common_embd_normalize` of llama.cpp)."""
    if kind == RAW:
        return rows
    sizes = np.abs(np.ascontiguousarray(rows, np.float64))
    if kind == LARGEST:
        norms = sizes.max(axis=1) / _INT16
    elif kind == EUCLIDEAN:
        norms = np.sqrt((sizes * sizes).sum(axis=1))
    else:
        # Of components above 1 a high power is infinite: the largest is taken out first.
        largest = np.maximum(sizes.max(axis=1), _SMALLEST)
        norms = largest * ((sizes / largest[:, None]) ** kind).sum(axis=1) ** (1 / kind)
    return (rows / np.maximum(norms, _SMALLEST)[:, None]).astype(np.float32)


def as_numbers(row: Rows) -> bytes:
    """A vector as a JSON array."""
    return json_bytes(row.tolist())


def as_base64(row: Rows) -> bytes:
    """A vector as a JSON string: its little-endian float32 values in base64."""
    return b'"' + base64.b64encode(row.astype("<f4", copy=False).tobytes()) + b'"'


def size_of(rows: Rows) -> int:
    """Numbers in all rows."""
    return math.prod(rows.shape)
