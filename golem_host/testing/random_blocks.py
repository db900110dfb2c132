"""Random valid blocks of ggml's quantized types with a given standard deviation. No torch."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from golem_host.weights.dequant import dequantize
from golem_host.weights.types import GgmlType


class _Scales(NamedTuple):
    """Where a block has its fp16 scale and its fp16 minimum's scale, and the ratio of the two that makes the mean of
    random codes zero.
    """

    at: int
    minimum_at: int | None = None
    ratio: float = 0.0


_SCALES = {
    "Q4_0": _Scales(0),
    "Q4_1": _Scales(0, 2, -7.5),
    "Q5_0": _Scales(0),
    "Q5_1": _Scales(0, 2, -15.5),
    "Q8_0": _Scales(0),
    "Q2_K": _Scales(80, 82, 1.5),
    "Q3_K": _Scales(108),
    "Q4_K": _Scales(0, 2, 7.5),
    "Q5_K": _Scales(0, 2, 15.5),
    "Q6_K": _Scales(208),
    "IQ4_NL": _Scales(0),
    "IQ4_XS": _Scales(0),
    "IQ1_S": _Scales(0),
    "IQ2_XXS": _Scales(0),
    "IQ2_XS": _Scales(0),
    "IQ2_S": _Scales(0),
    "IQ3_XXS": _Scales(0),
    "IQ3_S": _Scales(0),
    "Q1_0": _Scales(0),
    "Q2_0": _Scales(0),
    "PQ2_0": _Scales(0),
    "PTQ1_0": _Scales(26),
}

TYPES = tuple(_SCALES)
"""Names of the types there are random blocks of."""


def random_blocks(random: np.random.Generator, kind: str, count: int, spread: float) -> np.ndarray:
    """`count` blocks of ggml type `kind`, all with one scale: shape (count, block bytes), uint8.

    `spread`: the standard deviation of their values. Raises KeyError for a type that is not in `TYPES`.
    """
    blocks = _unscaled(random, kind, count)
    _set_scale(blocks, kind, spread / _unit_spread(kind))
    return blocks


def _unscaled(random: np.random.Generator, kind: str, count: int) -> np.ndarray:
    size = GgmlType[kind].block_bytes
    return np.frombuffer(bytearray(random.bytes(count * size)), np.uint8).reshape(count, size)


def _set_scale(blocks: np.ndarray, kind: str, scale: float) -> None:
    at, minimum_at, ratio = _SCALES[kind]
    blocks[:, at : at + 2] = np.array([scale], np.float16).view(np.uint8)
    if minimum_at is not None:
        blocks[:, minimum_at : minimum_at + 2] = np.array([scale * ratio], np.float16).view(np.uint8)


@lru_cache
def _unit_spread(kind: str) -> float:
    """Standard deviation of random blocks whose scale is 1."""
    blocks = _unscaled(np.random.default_rng(0), kind, 4096)
    _set_scale(blocks, kind, 1.0)
    values = dequantize(GgmlType[kind], blocks.reshape(-1))
    assert values is not None
    return float(values.std())
