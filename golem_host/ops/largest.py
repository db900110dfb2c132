"""The largest of a row of logits: what sampling begins with. In numpy where there is no kernels library, slowly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from golem_host.kernels.library import load


def arg_largest(values: NDArray[np.float32]) -> tuple[int, bool]:
    """Position of the first largest of `values` (n,), n > 0, NaN below all; and whether every value is finite."""
    kernels = load()
    return arg_largest_numpy(values) if kernels is None else kernels.argmax(values)


def largest(values: NDArray[np.float32], k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Positions and values of the `k` largest of `values` (n,), 1 <= k <= n, no NaN: falling, equals by position."""
    kernels = load()
    return largest_numpy(values, k) if kernels is None else kernels.top_k(values, k)


def arg_largest_numpy(values: NDArray[np.float32]) -> tuple[int, bool]:
    """`arg_largest` without the kernels library."""
    numbers = np.where(np.isnan(values), np.float32(-np.inf), values)
    best = np.flatnonzero(values == numbers.max())
    return int(best[0]) if len(best) else 0, bool(np.isfinite(values).all())


def largest_numpy(values: NDArray[np.float32], k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """`largest` without the kernels library."""
    bound = np.partition(values, len(values) - k)[len(values) - k]
    positions = np.flatnonzero(values >= bound)
    order = np.argsort(-values[positions], kind="stable")[:k]
    positions = positions[order].astype(np.int32)
    return positions, values[positions]
