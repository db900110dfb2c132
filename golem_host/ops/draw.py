"""The usual sampling chain and its draw as one native call."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host.kernels.library import Kernels, load


class NativeDraw:
    """Top-k, top-p, min-p, temperature, and the draw, over logits of a whole vocabulary."""

    def __init__(self, kernels: Kernels, rules: Any) -> None:
        self._draw = kernels.draw
        self._rules = rules

    def __call__(self, logits: NDArray[np.float32], maxima: NDArray[np.float32] | None, share: float) -> int:
        """The position in `logits` (n,) at which the running sum of the weights left reaches `share` (0..1) of it.

        -1 when the largest logit is not finite. `maxima` are the block maxima (`golem_host.ops.largest`), where known.
        """
        return self._draw(logits, maxima, self._rules, share)


def native_draw(*, top_k: int, top_p: float, min_p: float, min_keep: int, temperature: float) -> NativeDraw | None:
    """The chain with `top_k` > 0 and `temperature` > 0; `top_p` 1 and `min_p` 0 are off, and both leave at least
    `min_keep`. None without the kernels library.
    """
    kernels = load()
    if kernels is None:
        return None
    rules = kernels.draw_rules(top_k=top_k, top_p=top_p, min_p=min_p, min_keep=min_keep, temperature=temperature)
    return NativeDraw(kernels, rules)
