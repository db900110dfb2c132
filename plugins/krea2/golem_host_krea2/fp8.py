"""Weights in float8 (E4M3, finite: sign, 4 bits of exponent with bias 7, 3 of mantissa), one scale for each matrix.

They are computed with as ComfyUI does without float8 arithmetic: in bfloat16, value times scale rounded to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from golem_host.weights import GgmlType, Tensor
from golem_host.weights.pages import drop_pages


@cache
def e4m3_values() -> NDArray[np.float32]:
    """What each of the 256 codes stands for; 0x7f and 0xff are NaN."""
    codes = np.arange(256)
    exponent, mantissa = codes >> 3 & 15, codes & 7
    magnitude = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7.0))
    values = np.where(codes & 127 == 127, np.nan, np.where(codes < 128, magnitude, -magnitude))
    return values.astype(np.float32)


def bfloat16_words(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The nearest bfloat16 of each value, ties to even."""
    words = np.ascontiguousarray(values).view(np.uint32)
    rounded = (words + 0x7FFF + (words >> 16 & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


@dataclass(frozen=True, eq=False)
class Fp8Matrix:
    """A matrix of a file, whose rows are given as bfloat16."""

    name: str
    shape: tuple[int, ...]
    data: NDArray[np.uint8]
    scale: float
    path: Path
    type: GgmlType = GgmlType.BF16

    def part(self, first: int, count: int) -> Tensor:
        """Rows from `first` on, in new memory; the file's pages are given back."""
        table = bfloat16_words(e4m3_values() * np.float32(self.scale))
        codes = self.data.reshape(self.shape[0], -1)[first : first + count].reshape(-1)
        words = table[codes]
        drop_pages(codes)
        shape = (count, *self.shape[1:])
        assert math.prod(shape) == len(words)
        return Tensor(self.name, shape, int(self.type), self.path, (self.type, words.view(np.uint8)))
