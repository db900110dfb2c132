"""Scores of the tokens that a constraint allows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from golem_host.ops.largest import MAXIMA_BLOCK
from golem_host_chat.sampling_filters import SamplingError
from golem_host_chat.scores import Scores


def allows(mask: NDArray[np.uint32], token: int) -> bool:
    """Whether `mask` (bit `id % 32` of element `id // 32`) has `token`."""
    return bool(mask[token >> 5] >> (token & 31) & 1)


def masked(scores: Scores, row: int, mask: NDArray[np.uint32]) -> Scores:
    """One row of `scores` as scores of its own, in which tokens that `mask` lacks have the logit -infinity.

    Raises `SamplingError` when none is left that the model has an output for.
    """
    logits = scores.logits[row]
    known = min(len(logits), 32 * len(mask))
    bits = np.unpackbits(mask.view(np.uint8), count=known, bitorder="little")
    left = np.full_like(logits, -np.inf)
    np.copyto(left[:known], logits[:known], where=bits.view(np.bool_))
    maxima = np.maximum.reduceat(left, np.arange(0, len(left), MAXIMA_BLOCK))
    begin = int(np.argmax(maxima)) * MAXIMA_BLOCK
    best = begin + int(np.argmax(left[begin : begin + MAXIMA_BLOCK]))
    if left[best] == -np.inf:
        raise SamplingError("the constraint allows only tokens that the model has no output for")
    return Scores(left[None], maxima[None], [best])
