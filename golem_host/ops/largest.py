"""The largest of a row of logits: what sampling begins with. Most of the search is part of the pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from golem_host.kernels.library import MAXIMA_BLOCK, load
from golem_host.ops.recording import Ref

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class BlockMaxima:
    """The largest of every `MAXIMA_BLOCK` of the first `count` values; NaN for a block that is not all finite."""

    count: int

    def twin(self, x: torch.Tensor) -> torch.Tensor:
        import torch

        blocks = torch.nn.functional.pad(x[:, : self.count], (0, -self.count % MAXIMA_BLOCK), value=float("-inf"))
        blocks = blocks.reshape(len(x), -1, MAXIMA_BLOCK)
        padding = torch.arange(blocks[0].numel()).reshape(blocks.shape[1:]) >= self.count
        sound = (blocks.isfinite() | padding).all(-1)
        return torch.where(sound, blocks.amax(-1), torch.nan)


@dataclass(frozen=True)
class ArgLargest:
    """Where the first largest of the first `count` values is; -1 where they are not all finite."""

    count: int

    def twin(self, x: torch.Tensor, maxima: torch.Tensor) -> torch.Tensor:
        best = x[:, : self.count].argmax(-1, keepdim=True)
        best[maxima.isnan().any(-1)] = -1
        return best.int()


def block_maxima(x: Ref, count: int) -> Ref:
    """float32 (rows, blocks): what rules out most of the first `count` values of `x` (rows, width) in a search."""
    return x.recording.append(BlockMaxima(count), (x,), x.axis, (-(-count // MAXIMA_BLOCK),))


def arg_largest(x: Ref, maxima: Ref, count: int) -> Ref:
    """int32 (rows, 1): position of the first largest of the first `count` values of `x` (rows, width), whose block
    maxima are `maxima`; -1 in a row where they are not all finite.
    """
    return x.recording.append(ArgLargest(count), (x, maxima), x.axis, (1,), dtype="i32")


def largest(
    values: NDArray[np.float32], k: int, maxima: NDArray[np.float32] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Positions and values of the `k` largest of `values` (n,), 1 <= k <= n, no NaN: falling, equals by position.

    `maxima` are the block maxima of `values`, where they are known and all of them is finite.
    """
    kernels = load()
    return largest_numpy(values, k) if kernels is None else kernels.top_k(values, k, maxima)


def largest_numpy(values: NDArray[np.float32], k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """`largest` without the kernels library."""
    bound = np.partition(values, len(values) - k)[len(values) - k]
    positions = np.flatnonzero(values >= bound)
    order = np.argsort(-values[positions], kind="stable")[:k]
    positions = positions[order].astype(np.int32)
    return positions, values[positions]
